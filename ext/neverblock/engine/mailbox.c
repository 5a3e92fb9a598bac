/*
 * The mailbox of a loop: a lock-free stack of messages, and one descriptor that ends the loop's kernel wait. It has a
 * reference count, because a native thread may post a message after the loop has ended.
 */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef HAVE_SYS_EVENTFD_H
#include <sys/eventfd.h>
#endif

static int open_ends(nb_mailbox_t *box) {
#ifdef HAVE_SYS_EVENTFD_H
    box->reader = box->writer = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return box->reader < 0 ? errno : 0;
#else
    int ends[2];
    if (pipe(ends) < 0) return errno;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFL, fcntl(ends[i], F_GETFL) | O_NONBLOCK);
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    }
    box->reader = ends[0];
    box->writer = ends[1];
    return 0;
#endif
}

nb_mailbox_t *nb_mailbox_open(void) {
    nb_mailbox_t *box = calloc(1, sizeof *box);
    if (!box) { errno = ENOMEM; return NULL; }
    int error = open_ends(box);
    if (error) { free(box); errno = error; return NULL; }
    atomic_init(&box->references, 1);
    return box;
}

void nb_mailbox_retain(nb_mailbox_t *box) { atomic_fetch_add(&box->references, 1); }

void nb_mailbox_release(nb_mailbox_t *box) {
    if (atomic_fetch_sub(&box->references, 1) != 1) return;
    for (nb_message_t *message = atomic_exchange(&box->head, NULL), *next; message; message = next) {
        next = message->next;
        message->deliver(NULL, message);
    }
    close(box->reader);
    if (box->writer != box->reader) close(box->writer);
    free(box);
}

void nb_mailbox_interrupt(nb_mailbox_t *box) {
    if (!atomic_load(&box->sleeping) || atomic_exchange(&box->signalled, true)) return;
    int saved = errno; /* we may be in a signal handler */
    uint64_t one = 1;
    ssize_t written = write(box->writer, &one, box->writer == box->reader ? sizeof one : 1);
    (void)written; /* full means it is readable already */
    errno = saved;
}

void nb_mailbox_post(nb_mailbox_t *box, nb_message_t *message) {
    message->next = atomic_load(&box->head);
    while (!atomic_compare_exchange_weak(&box->head, &message->next, message)) {}
    nb_mailbox_interrupt(box);
}

bool nb_mailbox_empty(const nb_mailbox_t *box) { return !atomic_load(&box->head); }

/* Makes a readable mailbox unreadable again. Later posts write again. */
void nb_mailbox_clear(nb_mailbox_t *box) {
    char bytes[64];
    while (read(box->reader, bytes, sizeof bytes) == (ssize_t)sizeof bytes) {}
    atomic_store(&box->signalled, false); /* not before: a byte written in between, and all later ones, would be lost */
}

bool nb_mailbox_drain(nb_engine_t *engine) {
    nb_mailbox_t *box = engine->mailbox;
    if (!atomic_load_explicit(&box->head, memory_order_relaxed)) return false;
    nb_message_t *ordered = NULL;
    for (nb_message_t *message = atomic_exchange(&box->head, NULL), *next; message; message = next) {
        next = message->next;
        message->next = ordered;
        ordered = message;
    }
    for (nb_message_t *next; ordered; ordered = next) {
        next = ordered->next;
        ordered->deliver(engine, ordered);
    }
    return true;
}
