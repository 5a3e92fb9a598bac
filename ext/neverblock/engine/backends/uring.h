/* The io_uring back end's state and parts. */
#ifndef NB_URING_H
#define NB_URING_H

#include "epoll.h"
#include <liburing.h>

/* What an entry's user_data says it is: the pointers are aligned, so their lowest bits are free. */
#define NB_URING_TRANSFER 0u
#define NB_URING_OPERATION 1u
#define NB_URING_EPOLL 2u
#define NB_URING_KINDS 3u

/* A completion, copied from the ring. */
typedef struct { uint64_t data; int result; uint32_t flags; } nb_completion_t;

typedef struct {
    nb_epoll_t epoll; /* first: the epoll functions find their state here */
    struct io_uring ring;
    bool deferred;         /* the kernel does its part when we enter it; operations need that */
    size_t transfers;      /* in flight */
    bool polling;          /* the epoll descriptor is polled in the ring … */
    unsigned polled;       /* … this one: epoll.renewals at that time … */
    bool epoll_ready;      /* … and has events */
    bool cancels_due;      /* some could not be submitted yet */
    nb_completion_t *early; /* came while that of an operation was waited for */
    size_t early_count, early_capacity;
    struct io_uring_buf_ring *buffers; /* provided for receives; their bytes follow */
    unsigned buffer_count;
    nb_link_t out_of_buffers;          /* receives that found none */
} nb_uring_t;

struct io_uring_sqe *nb_uring_entry(nb_uring_t *);    /* NULL: full, and the kernel takes nothing */
bool nb_uring_next(nb_uring_t *, nb_completion_t *);  /* takes the next completion; false: there is none */

/* uring_operations.c */
bool nb_uring_begin(nb_engine_t *, nb_operation_t *);
bool nb_uring_cancel(nb_engine_t *, nb_operation_t *);
bool nb_uring_settle(nb_engine_t *, nb_operation_t *);
void nb_uring_submit(nb_engine_t *);
void nb_uring_cancel_due(nb_engine_t *);
void nb_uring_completed(nb_engine_t *, const nb_completion_t *);
void nb_uring_refill(nb_engine_t *);
void nb_uring_free_buffers(nb_uring_t *);

#endif
