/*
 * Timers: an indexed binary heap, because deadlines are nearly always cancelled before they come. The heap is 1-based,
 * so index 0 can mean "not armed".
 */
#include "internal.h"
#include <math.h>

/* Rounds up: what a caller has left of a limit may be less than a nanosecond, and a virtual clock would not move. The
 * picosecond is for products such as 0.1 * 1e9. */
uint64_t nb_after(double seconds) {
    if (!(seconds < NB_LONGEST)) return NB_NEVER; /* NaN too */
    if (seconds <= 0) return nb_now();
    return nb_now() + (uint64_t)fmax(1, ceil(seconds * 1e9 - 1e-3));
}

static void place(nb_timers_t *heap, size_t index, nb_timer_t *timer) {
    heap->slots[index] = timer;
    timer->index = index;
}

static void sift_up(nb_timers_t *heap, size_t index) {
    nb_timer_t *timer = heap->slots[index];
    while (index > 1 && heap->slots[index / 2]->deadline > timer->deadline) {
        place(heap, index, heap->slots[index / 2]);
        index /= 2;
    }
    place(heap, index, timer);
}

static void sift_down(nb_timers_t *heap, size_t index) {
    nb_timer_t *timer = heap->slots[index];
    for (size_t child; (child = index * 2) <= heap->count; index = child) {
        if (child < heap->count && heap->slots[child + 1]->deadline < heap->slots[child]->deadline) child++;
        if (heap->slots[child]->deadline >= timer->deadline) break;
        place(heap, index, heap->slots[child]);
    }
    place(heap, index, timer);
}

void nb_timer_arm(nb_engine_t *engine, nb_timer_t *timer) {
    nb_timers_t *heap = &engine->timers;
    if (heap->count + 2 > heap->capacity) {
        size_t capacity = heap->capacity ? heap->capacity * 2 : 64;
        REALLOC_N(heap->slots, nb_timer_t *, capacity);
        heap->capacity = capacity;
    }
    place(heap, ++heap->count, timer);
    sift_up(heap, heap->count);
}

void nb_timer_cancel(nb_engine_t *engine, nb_timer_t *timer) {
    nb_timers_t *heap = &engine->timers;
    size_t index = timer->index;
    if (index == 0 || index > heap->count) return; /* or dropped in a forked child */
    timer->index = 0;
    nb_timer_t *last = heap->slots[heap->count--];
    if (last == timer) return;
    place(heap, index, last);
    sift_up(heap, index);
    sift_down(heap, last->index);
}

void nb_timers_fire(nb_engine_t *engine, uint64_t now) {
    nb_timers_t *heap = &engine->timers;
    while (heap->count && heap->slots[1]->deadline <= now) {
        nb_timer_t *timer = heap->slots[1];
        nb_timer_cancel(engine, timer);
        timer->fire(engine, timer);
    }
}

uint64_t nb_next_deadline(const nb_engine_t *engine) {
    return engine->timers.count ? engine->timers.slots[1]->deadline : NB_NEVER;
}

void nb_timers_shift(nb_engine_t *engine, int64_t nanoseconds) {
    for (size_t i = 1; i <= engine->timers.count; i++) engine->timers.slots[i]->deadline += (uint64_t)nanoseconds;
}

void nb_timers_free(nb_engine_t *engine) {
    xfree(engine->timers.slots);
    engine->timers = (nb_timers_t){0};
}
