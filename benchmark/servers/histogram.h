/*
 * Times in nanoseconds, counted by size: exact below 64 ns, then 64 buckets for each doubling, so within 1.6 %.
 *
 *   static struct histogram times;
 *   note(&times, 1500);
 *   percentile(&times, 0.99)     // seconds
 */
#include <stdint.h>

enum { SUB = 64, BUCKETS = 60 * SUB };

struct histogram {
    uint64_t counts[BUCKETS], noted, longest;
};

static unsigned bucket_of(uint64_t time) {
    if (time < SUB) return (unsigned)time;
    unsigned shift = 63u - (unsigned)__builtin_clzll(time) - 6u;
    unsigned bucket = (shift + 1) * SUB + (unsigned)((time >> shift) - SUB);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double middle_of(unsigned bucket) {
    if (bucket < SUB) return bucket;
    unsigned shift = bucket / SUB - 1;
    return ((double)(bucket % SUB + SUB) + 0.5) * (double)(1ull << shift);
}

static void note(struct histogram *times, uint64_t time) {
    times->counts[bucket_of(time)]++;
    times->noted++;
    if (time > times->longest) times->longest = time;
}

static double percentile(const struct histogram *times, double share) {
    uint64_t wanted = (uint64_t)((double)times->noted * share), seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += times->counts[i]) > wanted) return middle_of(i) / 1e9;
    return (double)times->longest / 1e9;
}
