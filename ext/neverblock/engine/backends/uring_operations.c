/*
 * Operations in the ring. Accepting and receiving are multishot: submitted once, completed again and again.
 *
 * Received bytes arrive in buffers that all receives share. Each buffer is provided again as soon as its owner has been
 * called, so a connection that receives nothing has no buffer. The kernel takes the buffers in turn: the fewer there
 * are, the more likely they are in the processor's cache. So there are few until they run out. They don't begin at
 * multiples of a power of two: their beginnings would share a few places of that cache.
 *
 * A receive that finds no buffer is over for the kernel. Such receives are begun again in order, as many as there are
 * buffers. Begun all at once, most would find none again, each time, and take the processor from the fibers that free
 * them.
 */
#include "uring.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BUFFERS 256          /* at most; a power of two */
#define FIRST_BUFFERS 64
#define BUFFER_SIZE (32768 + 5 * 64)
#define GROUP 0              /* there is only one */
#define PATIENCE 100         /* milliseconds for a cancellation, …  */
#define ATTEMPTS 20          /* … so many times */

/* ---- buffers ---- */
static size_t table_size(void) { return BUFFERS * sizeof(struct io_uring_buf); }

static char *buffer_at(nb_uring_t *state, unsigned index) {
    return (char *)state->buffers + table_size() + (size_t)index * BUFFER_SIZE;
}

static void provide_buffer(nb_uring_t *state, unsigned index) {
    io_uring_buf_ring_add(state->buffers, buffer_at(state, index), BUFFER_SIZE, (unsigned short)index,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(state->buffers, 1);
}

/* A forked child does not use them, and must not share the table with the kernel. */
static bool have_buffers(nb_uring_t *state) {
    if (state->buffers) return true;
    size_t size = table_size() + (size_t)BUFFERS * BUFFER_SIZE;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)memory, .ring_entries = BUFFERS, .bgid = GROUP,
    };
    if (madvise(memory, size, MADV_DONTFORK) < 0 || io_uring_register_buf_ring(&state->ring, &registration, 0) != 0) {
        munmap(memory, size);
        return false;
    }
    state->buffers = memory;
    io_uring_buf_ring_init(state->buffers);
    while (state->buffer_count < FIRST_BUFFERS) provide_buffer(state, state->buffer_count++);
    return true;
}

static void add_buffers(nb_uring_t *state) {
    unsigned wanted = state->buffer_count * 2;
    if (wanted > BUFFERS) return;
    while (state->buffer_count < wanted) provide_buffer(state, state->buffer_count++);
}

void nb_uring_free_buffers(nb_uring_t *state) {
    if (state->buffers) munmap(state->buffers, table_size() + (size_t)BUFFERS * BUFFER_SIZE);
    state->buffers = NULL;
}

/* ---- beginning and ending ---- */
static uint64_t name_of(nb_operation_t *operation) { return (uint64_t)(uintptr_t)operation | NB_URING_OPERATION; }

bool nb_uring_begin(nb_engine_t *engine, nb_operation_t *operation) {
    nb_uring_t *state = engine->state;
    if (!state->deferred || (operation->kind == NB_RECEIVE && !have_buffers(state))) return false;
    struct io_uring_sqe *entry = nb_uring_entry(state);
    if (!entry) return false;
    switch ((nb_operation_kind_t)operation->kind) {
    case NB_ACCEPT:
        io_uring_prep_multishot_accept(entry, operation->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        break;
    case NB_RECEIVE:
        io_uring_prep_recv_multishot(entry, operation->fd, NULL, 0, 0);
        entry->flags |= IOSQE_BUFFER_SELECT;
        entry->buf_group = GROUP;
        break;
    case NB_SEND:
        io_uring_prep_send(entry, operation->fd, operation->bytes + operation->sent,
                           operation->length - operation->sent, MSG_NOSIGNAL);
        break;
    }
    io_uring_sqe_set_data64(entry, name_of(operation));
    operation->place = state->ring.sq.sqe_tail - 1;
    return true;
}

void nb_uring_submit(nb_engine_t *engine) {
    nb_uring_t *state = engine->state;
    if (io_uring_sq_ready(&state->ring)) io_uring_submit(&state->ring);
}

/* An entry that the kernel has not seen yet names a descriptor that may be closed next, and its number reused. So it is
 * submitted first. */
bool nb_uring_cancel(nb_engine_t *engine, nb_operation_t *operation) {
    nb_uring_t *state = engine->state;
    if (operation->out_of_buffers) return true; /* the kernel does not have it */
    bool unseen = (int)(operation->place - io_uring_smp_load_acquire(state->ring.sq.khead)) >= 0;
    if (unseen) io_uring_submit(&state->ring);
    struct io_uring_sqe *entry = nb_uring_entry(state);
    if (!entry) {
        state->cancels_due = true;
        return false;
    }
    io_uring_prep_cancel64(entry, name_of(operation), 0);
    io_uring_sqe_set_data64(entry, 0);
    entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
    return true;
}

static bool submit_cancels(nb_engine_t *engine, nb_link_t *list) {
    for (nb_link_t *l = list->next; l != list; l = l->next) {
        nb_operation_t *operation = NB_ENTRY(l, nb_operation_t, link);
        if (!operation->cancelled || operation->cancel_submitted) continue;
        operation->cancel_submitted = nb_uring_cancel(engine, operation);
        if (!operation->cancel_submitted) return false;
    }
    return true;
}

void nb_uring_cancel_due(nb_engine_t *engine) {
    nb_uring_t *state = engine->state;
    state->cancels_due = false;
    if (submit_cancels(engine, &engine->abandoned)) submit_cancels(engine, &engine->operations);
}

/* ---- completing ---- */
static void run_out(nb_engine_t *engine, nb_operation_t *operation) {
    nb_uring_t *state = engine->state;
    add_buffers(state);
    engine->out_of_buffers++;
    operation->out_of_buffers = true;
    nb_list_append(&state->out_of_buffers, &operation->refill);
}

static void end_cancelled(nb_engine_t *engine, nb_operation_t *operation) {
    nb_list_remove(&operation->refill);
    operation->out_of_buffers = false;
    nb_operation_completed(engine, operation, -ECANCELED, NULL, false);
}

/* Begins as many as will find a buffer, if the kernel uses the buffers for no other receives. */
void nb_uring_refill(nb_engine_t *engine) {
    nb_uring_t *state = engine->state;
    size_t unread = io_uring_cq_ready(&state->ring) + state->early_count;
    size_t left = state->buffer_count > unread ? state->buffer_count - unread : 0;
    for (; left && !nb_list_empty(&state->out_of_buffers); left--) {
        nb_operation_t *operation = NB_ENTRY(state->out_of_buffers.next, nb_operation_t, refill);
        if (operation->cancelled) {
            end_cancelled(engine, operation);
            continue;
        }
        if (!nb_uring_begin(engine, operation)) return;
        nb_list_remove(&operation->refill);
        operation->out_of_buffers = false;
    }
}

void nb_uring_completed(nb_engine_t *engine, const nb_completion_t *completion) {
    nb_uring_t *state = engine->state;
    nb_operation_t *operation = (nb_operation_t *)(uintptr_t)(completion->data - NB_URING_OPERATION);
    bool buffered = completion->flags & IORING_CQE_F_BUFFER;
    unsigned index = completion->flags >> IORING_CQE_BUFFER_SHIFT;
    if (completion->result == -ENOBUFS && operation->kind == NB_RECEIVE && !operation->cancelled) {
        run_out(engine, operation);
        return;
    }
    char *bytes = buffered ? buffer_at(state, index) : NULL;
    nb_operation_completed(engine, operation, completion->result, bytes, completion->flags & IORING_CQE_F_MORE);
    if (buffered) provide_buffer(state, index);
}

static void keep(nb_uring_t *state, const nb_completion_t *completion) {
    if (state->early_count == state->early_capacity) {
        size_t capacity = state->early_capacity ? state->early_capacity * 2 : 64;
        nb_completion_t *grown = realloc(state->early, capacity * sizeof *grown);
        if (!grown) rb_memerror();
        state->early = grown;
        state->early_capacity = capacity;
    }
    state->early[state->early_count++] = *completion;
}

static int wait_for_one(nb_uring_t *state) {
    struct __kernel_timespec patience = {.tv_nsec = PATIENCE * NB_MILLISECOND};
    struct io_uring_cqe *entry;
    return io_uring_submit_and_wait_timeout(&state->ring, &entry, 1, &patience, NULL);
}

/* Keeps the completions of others for the loop: their callbacks may expect to be called from it alone. */
bool nb_uring_settle(nb_engine_t *engine, nb_operation_t *operation) {
    nb_uring_t *state = engine->state;
    uint64_t name = name_of(operation);
    nb_completion_t completion;
    for (size_t i = 0; i < state->early_count; i++) {
        if (state->early[i].data != name) continue;
        completion = state->early[i];
        state->early[i].data = 0;
        nb_uring_completed(engine, &completion);
    }
    if (engine->stopping && operation->out_of_buffers) end_cancelled(engine, operation);
    for (int attempts = 0; engine->stopping && attempts < ATTEMPTS;) {
        if (!operation->cancel_submitted) operation->cancel_submitted = nb_uring_cancel(engine, operation);
        int error = wait_for_one(state);
        if (error == -ETIME) {
            operation->cancel_submitted = false;
            attempts++;
        } else if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) {
            break;
        }
        while (nb_uring_next(state, &completion)) {
            if (completion.data == name) nb_uring_completed(engine, &completion);
            else if (completion.data) keep(state, &completion);
        }
    }
    return !engine->stopping;
}
