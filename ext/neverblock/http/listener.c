/*
 * Accepting. A listener is a watch like any other; each event takes a bounded number of connections, so that a flood
 * of them cannot keep the others waiting, and the rest come with the next event.
 */
#include "http.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <ruby/io.h>
#include <unistd.h>

#define ACCEPTS 32

static int accept_one(int fd, struct sockaddr_storage *address, socklen_t *length) {
#ifdef NB_PORTABLE
    int client = accept(fd, (struct sockaddr *)address, length);
    if (client < 0) return client;
    fcntl(client, F_SETFL, fcntl(client, F_GETFL) | O_NONBLOCK);
    fcntl(client, F_SETFD, FD_CLOEXEC);
    return client;
#else
    return accept4(fd, (struct sockaddr *)address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
#endif
}

/* Too many open files: accepting stops until the tick sees room, rather than to spin on an event that stays. */
static void out_of_descriptors(nb_core_t *core, int error) {
    nb_listeners_pause(core, true);
    core->paused = true;
    nb_core_tick_soon(core);
    nb_core_trouble(core, "descriptors", "accepting pauses: %s with %zu connections open; raise the limit (ulimit -n) or "
                    "lower max_connections", strerror(error), core->connection_count);
}

static void listener_ready(nb_watch_t *watch, int revents) {
    nb_listener_t *listener = NB_ENTRY(watch, nb_listener_t, watch);
    nb_core_t *core = listener->core;
    for (int i = 0; i < ACCEPTS && watch->engine && watch->events; i++) {
        if (core->connection_count >= core->settings.max_connections) {
            nb_listeners_pause(core, true);
            core->paused = true;
            nb_core_trouble(core, "connections", "accepting pauses: %zu connections are open (max_connections)", core->connection_count);
            return;
        }
        struct sockaddr_storage address = {0};
        socklen_t length = sizeof address;
        int fd = accept_one(watch->fd, &address, &length);
        if (fd < 0) {
            int error = errno;
            if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) out_of_descriptors(core, error);
            return; /* EAGAIN, or a client that left before we came */
        }
        core->accepted++;
        nb_connection_t *connection = nb_connection_open(core, fd, &address, listener->local);
        if (connection) nb_connection_receive(connection); /* most often its request is there already */
    }
}

void nb_listener_open(nb_core_t *core, VALUE io) {
    int fd = rb_io_descriptor(io);
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0) rb_sys_fail("listen: not a socket");
    nb_listener_t *listener = ALLOC(nb_listener_t);
    *listener = (nb_listener_t){.watch = {.ready = listener_ready}, .core = core, .io = io,
                                .local = address.ss_family == AF_UNIX};
    int one = 1;
    if (!listener->local) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* those accepted inherit it */
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    int error = nb_watch_open(core->engine, &listener->watch, fd, RUBY_IO_READABLE);
    if (error) {
        xfree(listener);
        rb_syserr_fail(error, "listen");
    }
    nb_list_append(&core->listeners, &listener->link);
}

void nb_listeners_pause(nb_core_t *core, bool paused) {
    for (nb_link_t *l = core->listeners.next; l != &core->listeners; l = l->next)
        nb_watch_want(&NB_ENTRY(l, nb_listener_t, link)->watch, paused ? 0 : RUBY_IO_READABLE);
}

void nb_listeners_close(nb_core_t *core) {
    while (!nb_list_empty(&core->listeners)) {
        nb_listener_t *listener = NB_ENTRY(core->listeners.next, nb_listener_t, link);
        nb_list_remove(&listener->link);
        nb_watch_want(&listener->watch, 0);
        nb_watch_close(&listener->watch, false);
        xfree(listener);
    }
}
