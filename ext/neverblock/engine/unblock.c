/*
 * unblock: the wake-up that core's own primitives (Mutex, Queue, Thread#join …) ask for. The ticket of such a wait is
 * the pair of blocker and fiber: an unblock that names another blocker ends nothing.
 */
#include "internal.h"

/* Core names the same blocker to block and to unblock, with three exceptions.
 * - Thread#join unblocks with the thread of the waiting fiber.
 * - ConditionVariable#wait and Mutex#sleep call kernel_sleep, which does not get the lock that unblock names. Any
 *   lock may end a sleep, Kernel#sleep too: the lock given to ConditionVariable#wait may call that in its own
 *   `sleep`.
 * - IO#close waits in Mutex#sleep of a hidden mutex until the operations of others have ended. Each of them unblocks
 *   with the closing thread up to Ruby 3.4, and with the IO from 4.0 on.
 * Core itself never unblocks late: a fiber that leaves has been taken off the list of waiters first. The exception
 * is IO#close, so its wake-ups end no Kernel#sleep. */
static bool is_ticket(nb_engine_t *engine, const nb_wait_t *wait, VALUE blocker) {
    if (!wait->blockable) return false;
    if (wait->kind != NB_WAIT_SLEEP)
        return wait->subject == blocker || (blocker == engine->thread && engine->hooks->is_thread(wait->subject));
    if (!NIL_P(wait->subject) && wait->subject == blocker) return true;
    bool of_close = blocker == engine->thread || RB_TYPE_P(blocker, T_FILE);
    return of_close ? wait->timer.deadline == NB_NEVER && !wait->bare : engine->hooks->is_lock(blocker);
}

bool nb_unblock(nb_engine_t *engine, VALUE blocker, VALUE fiber) {
    nb_wait_t *wait = nb_fibermap_get(&engine->fibers, fiber);
    if (wait && !is_ticket(engine, wait, blocker)) return false;
    if (wait && wait->outcome == NB_RAISE && wait->exception == Qundef && wait->task) {
        /* Core has taken the fiber off the list of waiters: a Mutex or an item that it did not take would be lost.
         * So the fiber takes it, and the exception is raised at its next wait. */
        wait->outcome = NB_READY;
        return wait->task->pending = true;
    }
    if (wait) return nb_wake(engine, wait, NB_READY, false);
    /* Not parked: another thread has unblocked the running fiber before its block(blocker). A parked fiber that has
     * been woken is still in the map, so a late unblock is never kept. */
    if (engine->current_fiber == fiber) {
        engine->early_fiber = fiber;
        engine->early_blocker = blocker;
    }
    return false;
}

/* The same for a fiber that gets what others wait for too, such as a connection: the fiber runs next, since the
 * connection is unused until then. Not if NB_SHARE such fibers have run in a row: two that hand over to each other for
 * ever would keep all others from running. */
nb_wait_t *nb_blocked(nb_engine_t *engine, VALUE fiber) { return nb_fibermap_get(&engine->fibers, fiber); }

bool nb_unblock_next(nb_engine_t *engine, VALUE blocker, VALUE fiber) {
    nb_wait_t *wait = nb_fibermap_get(&engine->fibers, fiber);
    if (!nb_unblock(engine, blocker, fiber)) return false;
    if (!nb_list_empty(&wait->queue) && engine->handovers < NB_SHARE) {
        wait->handed_over = true;
        nb_list_remove(&wait->queue);
        nb_list_prepend(&engine->urgent, &wait->queue);
    }
    return true;
}

/* An early wake-up ends the next wait of its fiber, if that is for the same blocker; else it is dropped. */
bool nb_take_early_wakeup(nb_engine_t *engine, const nb_wait_t *wait) {
    if (!engine->early_fiber) return false;
    bool ours = engine->early_fiber == wait->fiber && is_ticket(engine, wait, engine->early_blocker);
    engine->early_fiber = engine->early_blocker = 0;
    return ours;
}

/* A fiber that waits without a loop has no other wait: each unblock of it is meant for this one. */
bool nb_woken_without_loop(nb_engine_t *engine, VALUE fiber) {
    engine->current_fiber = fiber; /* so that nb_unblock leaves an early wake-up */
    if (engine->early_fiber != fiber) return false;
    engine->early_fiber = engine->early_blocker = 0;
    return true;
}
