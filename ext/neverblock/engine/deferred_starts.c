/*
 * Deferred starts: work that has not begun, and that waits while fibers that have begun keep the loop busy. A request
 * of the server is one.
 *
 * After each look at the kernel the loop counts how many may begin (engine->room), and begins them. A deferred start
 * that has waited for its patience begins nevertheless.
 */
#include "internal.h"

#define FEW 2 /* runnable fibers after a look at the kernel; with fewer, the loop may soon be idle */

static unsigned count_up_to(nb_link_t *list, unsigned most) {
    unsigned count = 0;
    for (nb_link_t *l = list->next; l != list && count < most; l = l->next) count++;
    return count;
}

/* It depends on the runnable fibers, not on those that have begun: parked ones leave the processor to others. */
static unsigned room(nb_engine_t *engine) {
    unsigned left = FEW;
    left -= count_up_to(&engine->resume_first, left);
    left -= count_up_to(&engine->urgent, left);
    return left - count_up_to(&engine->normal, left);
}

void nb_deferred_starts_begin(nb_engine_t *engine) {
    engine->room = room(engine);
    if (nb_list_empty(&engine->deferred_starts)) return;
    uint64_t now = nb_now();
    for (nb_link_t *l = engine->deferred_starts.next, *next; l != &engine->deferred_starts; l = next) {
        nb_deferred_start_t *deferred_start = NB_ENTRY(l, nb_deferred_start_t, link);
        next = l->next;
        if (!engine->room && now - deferred_start->since < deferred_start->patience) continue;
        nb_list_remove(l);
        deferred_start->begin(engine, deferred_start);
    }
}
