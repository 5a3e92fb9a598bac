/*
 * A small fuzzer for the target beside it, for compilers that bring none:
 *
 *     driver [-t SECONDS] [-s SEED] [-o FILE] FILE...
 *
 * runs the target on every file, then for SECONDS (0: not at all) on what it makes of them by cutting, joining and
 * changing. Compiled with -fsanitize-coverage=trace-pc (all but this file), it keeps an input that took a way through
 * the code that none before it took, and works on with it. The input of a finding is left in the file of -o.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_cov_trace_pc(void);
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

#define LONGEST 4096
#define MOST_KEPT 8192
#define EDGES 65536

typedef struct { uint8_t *bytes; size_t size; } input_t;

static input_t kept[MOST_KEPT];
static size_t kept_count, edge_count;
static uint8_t current[LONGEST], edges[EDGES];
static size_t current_size;
static uintptr_t last_place;
static bool found_new;
static uint64_t state = 1;
static const char *finding = "finding";

/* What the grammar turns on. */
static const char *const words[] = {
    "\r\n", "\r\n\r\n", "\n", "\r", " ", "\t", ":", ",", ";", "0", "-", "+", "0x", "%41", "\0", "\x7f", "\x80", "_",
    "\"", "GET ", "POST ", "HEAD ", "OPTIONS * ", "CONNECT a:1 ", "/", "?", "#", "*", "http://", "https://a:443/", "@",
    "[::1]", " HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/2.0\r\n", "Host: a\r\n", "Host: ", "a:80", "A: b\r\n", " b\r\n",
    "Content-Length: ", "Content-Length: 5\r\n", "9223372036854775807", "18446744073709551616",
    "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: ", "chunked", "gzip, ",
    "Connection: ", "close", "keep-alive", "upgrade", "Upgrade: h2c\r\n", "Expect: 100-continue\r\n", "Expect: ",
    "PROXY TCP4 ", "PROXY TCP6 ", "PROXY UNKNOWN", "1.2.3.4 ", "::1 ", "65535 ", "!\x11", "!!", "!\x31",
    " ", "for=", "proto=https", ";by=", "\"[::1]:80\"", "10.0.0.1", "\\",
    "HTTP/1.1 200 OK\r\n", "HTTP/1.0 304 ", "HTTP/1.1 101 Switching Protocols\r\n", "HTTP/1.1 100\r\n\r\n", " 204",
    "1\r\na\r\n", "0\r\n\r\n", "5;x=\"y\"\r\n", "ffffffffffffffff", "7fffffffffffffff",
};

static size_t chance(size_t most) { /* below most */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state >> 11) % most;
}

void __sanitizer_cov_trace_pc(void) {
    uintptr_t place = (uintptr_t)__builtin_return_address(0);
    size_t edge = ((place >> 1) * 2654435761u ^ last_place) % EDGES;
    last_place = (place * 2654435761u) >> 3;
    if (edges[edge]) return;
    edges[edge] = 1;
    edge_count++;
    found_new = true;
}

/* A finding ends in abort(), where the sanitizers' do too. */
const char *__asan_default_options(void) { return "abort_on_error=1:allocator_may_return_null=1"; }
const char *__ubsan_default_options(void) { return "halt_on_error=1:abort_on_error=1:print_stacktrace=1"; }

static void aborted(int signal_number) {
    FILE *file = fopen(finding, "wb");
    if (file) {
        fwrite(current, 1, current_size, file);
        fclose(file);
    }
    fprintf(stderr, "1 finding (signal %d): its input is in %s\n", signal_number, finding);
    _exit(1);
}

static void keep(void) {
    if (kept_count == MOST_KEPT || current_size == 0) return;
    uint8_t *copy = malloc(current_size);
    if (!copy) return;
    memcpy(copy, current, current_size);
    kept[kept_count++] = (input_t){copy, current_size};
}

static void run(bool always_keep) {
    uint8_t *copy = malloc(current_size ? current_size : 1); /* of its exact size, for the address sanitizer */
    if (!copy) abort();
    memcpy(copy, current, current_size);
    found_new = false;
    last_place = 0;
    LLVMFuzzerTestOneInput(copy, current_size);
    free(copy);
    if (always_keep || found_new) keep();
}

/* Puts bytes in place of removed ones. */
static void splice(size_t at, size_t removed, const void *bytes, size_t size) {
    if (at > current_size) at = current_size;
    if (removed > current_size - at) removed = current_size - at;
    if (current_size - removed + size > LONGEST) return;
    memmove(current + at + size, current + at + removed, current_size - at - removed);
    if (size) memcpy(current + at, bytes, size);
    current_size += size - removed;
}

static void mutate(void) {
    size_t at = chance(current_size + 1), some = 1 + chance(chance(4) ? 8 : 200);
    const char *word = words[chance(sizeof words / sizeof *words)];
    const input_t *other = &kept[chance(kept_count)];
    uint8_t byte = (uint8_t)chance(256);
    switch (chance(8)) {
    case 0: splice(at, 1, &byte, 1); break;
    case 1: splice(at, 0, &byte, 1); break;
    case 2: splice(at, some, NULL, 0); break;
    case 3: splice(at, 0, word, *word ? strlen(word) : 1); break;
    case 4: splice(at, chance(12), word, *word ? strlen(word) : 1); break;
    case 5: { /* a part of another input */
        size_t from = chance(other->size), size = other->size - from;
        splice(at, chance(2) ? size : 0, other->bytes + from, some < size ? some : size);
        break;
    }
    case 6: { /* a part of this one, again */
        uint8_t copy[200];
        size_t size = current_size - at < some ? current_size - at : some;
        memcpy(copy, current + at, size);
        for (size_t times = 1 + chance(chance(8) ? 2 : 30); times; times--) splice(at, 0, copy, size);
        break;
    }
    case 7: if (at < current_size) current[at] ^= (uint8_t)(1u << chance(8)); break;
    }
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    current_size = fread(current, 1, LONGEST, file);
    fclose(file);
    run(true);
}

int main(int argc, char **argv) {
    time_t seconds = 0;
    unsigned long executions = 0;
    int option;
    while ((option = getopt(argc, argv, "t:s:o:")) != -1) {
        if (option == 't') seconds = atol(optarg);
        else if (option == 's') state = strtoull(optarg, NULL, 10) * 2654435761u + 1;
        else if (option == 'o') finding = optarg;
        else return 2;
    }
    signal(SIGABRT, aborted);
    for (int i = optind; i < argc; i++, executions++) load(argv[i]);
    if (kept_count == 0) {
        current[0] = 'H';
        current_size = 1;
        run(true);
    }
    for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
        for (int turn = 0; turn < 256; turn++, executions++) {
            const input_t *input = &kept[chance(kept_count)];
            memcpy(current, input->bytes, input->size);
            current_size = input->size;
            for (size_t times = 1 + chance(4); times; times--) mutate();
            run(false);
        }
    }
    printf("%lu executions, %zu inputs kept, %zu edges, 0 findings\n", executions, kept_count, edge_count);
    for (size_t i = 0; i < kept_count; i++) free(kept[i].bytes);
    return 0;
}
