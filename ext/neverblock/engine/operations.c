/*
 * Operations: what a back end does to a socket by itself - accept, receive, send. This file has the part that all back
 * ends share: how an operation begins and how it ends.
 *
 *     nb_operation_t *operation = nb_operation_receive(engine, fd, received, connection);
 *     ...
 *     nb_operation_abandon(engine, operation);   // connection may be freed and fd closed; received is not called again
 *
 * The kernel uses an operation's memory until its last completion. So the operation owns its struct, and the bytes of a
 * send. Before a descriptor is closed, the operations on it are abandoned.
 */
#include "internal.h"
#include <errno.h>
#include <unistd.h>

static bool is_ours(nb_engine_t *engine) { return engine->backend && engine->fork_generation == nb_fork_generation; }

/* ---- beginning ---- */
static nb_operation_t *begin(nb_engine_t *engine, nb_operation_t from) {
    if (!is_ours(engine) || !engine->backend->begin || engine->refused & 1u << from.kind) return NULL;
    nb_operation_t *operation;
    if (nb_list_empty(&engine->spare_operations)) {
        operation = ALLOC(nb_operation_t);
    } else {
        operation = NB_ENTRY(engine->spare_operations.next, nb_operation_t, link);
        nb_list_remove(&operation->link);
    }
    *operation = from;
    if (!engine->backend->begin(engine, operation)) {
        operation->bytes = NULL; /* they are still the caller's */
        nb_list_append(&engine->spare_operations, &operation->link);
        return NULL;
    }
    nb_list_append(&engine->operations, &operation->link);
    engine->operation_count++;
    return operation;
}

nb_operation_t *nb_operation_accept(nb_engine_t *engine, int fd, nb_completed_t *completed, void *owner) {
    return begin(engine, (nb_operation_t){.kind = NB_ACCEPT, .fd = fd, .completed = completed, .owner = owner});
}

nb_operation_t *nb_operation_receive(nb_engine_t *engine, int fd, nb_completed_t *completed, void *owner) {
    return begin(engine, (nb_operation_t){.kind = NB_RECEIVE, .fd = fd, .completed = completed, .owner = owner});
}

nb_operation_t *nb_operation_send(nb_engine_t *engine, int fd, char *bytes, size_t length, nb_completed_t *completed,
                                  void *owner) {
    nb_operation_t from = {
        .kind = NB_SEND, .fd = fd, .bytes = bytes, .length = length, .completed = completed, .owner = owner,
    };
    return begin(engine, from);
}

void nb_operations_submit(nb_engine_t *engine) {
    if (is_ours(engine) && engine->backend->submit) engine->backend->submit(engine);
}

void nb_operations_deliver(nb_engine_t *engine) {
    if (is_ours(engine) && engine->backend->deliver) engine->backend->deliver(engine);
}

/* ---- ending ---- */
void nb_operation_cancel(nb_engine_t *engine, nb_operation_t *operation) {
    if (!is_ours(engine) || operation->cancelled) return;
    operation->cancelled = true;
    operation->cancel_submitted = engine->backend->cancel(engine, operation);
}

void nb_operation_abandon(nb_engine_t *engine, nb_operation_t *operation) {
    if (!is_ours(engine)) return; /* a forked child: it is the parent's */
    operation->owner = NULL;
    nb_list_remove(&operation->link);
    nb_list_append(&engine->abandoned, &operation->link);
    nb_operation_cancel(engine, operation);
}

void nb_operation_stop(nb_engine_t *engine, nb_operation_t *operation) {
    if (!is_ours(engine)) return;
    engine->stopping = operation;
    nb_operation_cancel(engine, operation);
    if (engine->backend->settle(engine, operation)) return;
    engine->stopping = NULL;
    nb_operation_abandon(engine, operation); /* the kernel does not react: on another thread, or without memory */
}

void nb_operations_settle(nb_engine_t *engine) {
    if (!is_ours(engine)) return;
    for (nb_link_t *first; (first = engine->abandoned.next) != &engine->abandoned;) {
        nb_operation_stop(engine, NB_ENTRY(first, nb_operation_t, link));
        if (engine->abandoned.prev == first) return; /* it would not end, and has been put behind the others */
    }
}

void nb_operations_close(nb_engine_t *engine) {
    if (!is_ours(engine)) return;
    while (!nb_list_empty(&engine->operations))
        nb_operation_abandon(engine, NB_ENTRY(engine->operations.next, nb_operation_t, link));
    nb_operations_settle(engine);
}

static void free_all(nb_link_t *list) {
    while (list->next && !nb_list_empty(list)) {
        nb_operation_t *operation = NB_ENTRY(list->next, nb_operation_t, link);
        nb_list_remove(&operation->link);
        if (operation->kind == NB_SEND) xfree(operation->bytes);
        xfree(operation);
    }
}

void nb_operations_free(nb_engine_t *engine) {
    free_all(&engine->operations);
    free_all(&engine->abandoned);
    free_all(&engine->spare_operations);
    engine->operation_count = 0;
}

/* ---- completing ---- */
/* A send is over when all its bytes are sent; the kernel may take them in several parts. */
static bool goes_on(nb_engine_t *engine, nb_operation_t *operation, int *result) {
    if (*result > 0) operation->sent += (size_t)*result;
    if (operation->sent == operation->length) {
        *result = 0;
        return false;
    }
    bool willing = *result > 0 || *result == -EINTR;
    if (willing && !operation->cancelled && engine->backend->begin(engine, operation)) return true;
    if (*result >= 0) *result = -ECANCELED;
    return false;
}

/* Makes -EAGAIN of results that say nothing about the socket: the operation may be begun again. If the kernel does
 * not know the operation, the owner uses other means next time. */
static int without_news(nb_engine_t *engine, nb_operation_t *operation, int result) {
    if (operation->kind == NB_SEND) return result;
    if (result == -EINVAL || result == -EOPNOTSUPP) engine->refused |= 1u << operation->kind;
    else if (result == -ENOBUFS && operation->kind != NB_RECEIVE) return result; /* a receive: no buffer is free */
    else if (result != -ECANCELED && result != -EINTR && result != -ENOBUFS) return result;
    return -EAGAIN;
}

static void recycle(nb_engine_t *engine, nb_operation_t *operation) {
    if (operation->kind == NB_SEND) xfree(operation->bytes);
    operation->bytes = NULL;
    nb_list_prepend(&engine->spare_operations, &operation->link);
}

void nb_operation_completed(nb_engine_t *engine, nb_operation_t *operation, int result, char *bytes, bool more) {
    if (operation->kind == NB_SEND) more = goes_on(engine, operation, &result);
    if (operation->kind == NB_RECEIVE) operation->bytes = bytes;
    if (result < 0) result = without_news(engine, operation, result);
    if (!more) {
        nb_list_remove(&operation->link);
        engine->operation_count--;
        if (engine->stopping == operation) engine->stopping = NULL;
    }
    if (operation->owner) operation->completed(operation->owner, operation, result, more);
    else if (operation->kind == NB_ACCEPT && result >= 0) close(result);
    if (!more) recycle(engine, operation);
}
