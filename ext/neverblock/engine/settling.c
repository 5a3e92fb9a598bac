/*
 * Fibers that settle: under a virtual clock they wait until all others wait, and the time comes.
 *
 *     nb_obstacle_t obstacle = nb_settle(engine, NB_NEVER, 5 * NB_SECOND);
 *     if (obstacle.kind != NB_NOTHING) ...          // virtual time has stood still for five real seconds
 */
#include "internal.h"

static bool stop_settling(nb_engine_t *engine, nb_wait_t *wait) {
    nb_list_remove(&wait->queue);
    return true;
}

static void end_settling(nb_engine_t *engine, nb_wait_t *wait) {
    nb_list_remove(&wait->queue);
    nb_wake(engine, wait, NB_READY, false);
}

static void settling_time_came(nb_engine_t *engine, nb_timer_t *timer) {
    end_settling(engine, NB_ENTRY(timer, nb_wait_t, timer));
}

/* A wait in the list of those that settle, and what it was given up for. */
typedef struct { nb_wait_t wait; uint64_t patience; nb_obstacle_t obstacle; } settling_t;

nb_obstacle_t nb_settle(nb_engine_t *engine, uint64_t until, uint64_t patience) {
    settling_t settling = {.patience = patience};
    nb_wait_t *wait = &settling.wait;
    nb_wait_init(wait, NB_WAIT_SLEEP, Qnil);
    wait->withdraw = stop_settling;
    wait->timer.fire = settling_time_came;
    nb_wait_deadline(wait, until);
    if (nb_list_empty(&engine->settling)) engine->moved = nb_now_real();
    nb_list_append(&engine->settling, &wait->queue);
    nb_park(engine, wait);
    return settling.obstacle;
}

void nb_wake_settled(nb_engine_t *engine) {
    bool all = !nb_clock_is_virtual();
    for (nb_link_t *l = engine->settling.next, *next; l != &engine->settling; l = next) {
        nb_wait_t *wait = NB_ENTRY(l, nb_wait_t, queue);
        next = l->next;
        if (all || wait->timer.deadline == NB_NEVER) end_settling(engine, wait);
    }
}

void nb_give_up_settling(nb_engine_t *engine, bool runnable) {
    uint64_t still = nb_now_real() - engine->moved;
    nb_obstacle_t obstacle = runnable ? (nb_obstacle_t){NB_TASKS, -1} : engine->obstacle;
    for (nb_link_t *l = engine->settling.next, *next; l != &engine->settling; l = next) {
        settling_t *settling = NB_ENTRY(NB_ENTRY(l, nb_wait_t, queue), settling_t, wait);
        next = l->next;
        if (still <= settling->patience) continue;
        settling->obstacle = obstacle;
        end_settling(engine, &settling->wait);
    }
}
