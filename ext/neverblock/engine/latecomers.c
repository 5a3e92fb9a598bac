/*
 * Latecomers: work that has not begun, and is to wait while fibers that have begun keep the loop busy. A request of the server is one.
 *
 * After each look at the kernel the loop says how much may begin (engine->room), and begins that. A latecomer that has waited for its
 * patience begins nevertheless.
 */
#include "internal.h"

#define FEW 2 /* runnable fibers after a look at the kernel: with fewer, the loop may soon be idle */

static unsigned count_up_to(nb_link_t *list, unsigned most) {
    unsigned count = 0;
    for (nb_link_t *l = list->next; l != list && count < most; l = l->next) count++;
    return count;
}

/* How much may begin is said by how many fibers may run, not by how many have begun: those that wait leave the processor to others. */
static unsigned room(nb_engine_t *engine) {
    unsigned left = FEW;
    left -= count_up_to(&engine->resume_first, left);
    left -= count_up_to(&engine->urgent, left);
    return left - count_up_to(&engine->normal, left);
}

void nb_latecomers_begin(nb_engine_t *engine) {
    engine->room = room(engine);
    if (nb_list_empty(&engine->latecomers)) return;
    uint64_t now = nb_now();
    for (nb_link_t *l = engine->latecomers.next, *next; l != &engine->latecomers; l = next) {
        nb_latecomer_t *latecomer = NB_ENTRY(l, nb_latecomer_t, link);
        next = l->next;
        if (!engine->room && now - latecomer->since < latecomer->patience) continue;
        nb_list_remove(l);
        latecomer->begin(engine, latecomer);
    }
}
