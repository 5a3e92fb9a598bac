/* The epoll back end's state and parts, which the io_uring back end builds on. */
#ifndef NB_EPOLL_H
#define NB_EPOLL_H

#include "../internal.h"
#include <sys/epoll.h>

#define NB_EPOLL_EVENTS 32 /* about as many as one turn serves: the last of more would have left the cache by then */
#define NB_EPOLL_MAILBOX UINT64_MAX

typedef struct {
    int fd, count;
    bool has_stale_registrations; /* events come that no epoll_ctl can name */
    unsigned renewals;            /* how often fd was replaced */
    struct epoll_event events[NB_EPOLL_EVENTS];
} nb_epoll_t;

int nb_epoll_open_state(nb_engine_t *, nb_epoll_t *);
int nb_epoll_arm(nb_engine_t *, int fd, int events, uint32_t generation);
void nb_epoll_disarm(nb_engine_t *, int fd);
void nb_epoll_wait(nb_engine_t *, uint64_t nanoseconds);
void nb_epoll_dispatch(nb_engine_t *);

#endif
