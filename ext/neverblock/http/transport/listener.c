/*
 * Accepting. A listener is a watch like any other; each event takes a bounded number of connections, so that a flood
 * of them cannot keep the others waiting, and the rest come with the next event.
 *
 * Where the back end accepts by itself (engine/operations.c), what it has accepted beyond max_connections waits at the
 * door, as it would in the kernel's backlog.
 */
#include "../http.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <ruby/io.h>
#include <unistd.h>

#define ACCEPTS 32
#define LAST_ACCEPTS 4096

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

/* ---- pauses ---- */
/* Too many open files: accepting stops until the tick sees room, rather than to spin on an event that stays. */
static void out_of_descriptors(nb_core_t *core, int error) {
    nb_listeners_pause(core, true);
    nb_core_tick_soon(core);
    nb_core_trouble(core, "descriptors", "accepting pauses: %s with %zu connections open; raise the limit (ulimit -n) or "
                    "lower max_connections", strerror(error), core->connection_count);
}

static bool is_out_of_descriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

static bool is_full(nb_core_t *core) {
    if (core->connection_count < core->settings.max_connections || nb_crowd_first_to_go(core)) return false;
    if (!core->paused)
        nb_core_trouble(core, "connections", "accepting pauses: %zu connections are open, none of them idle (max_connections)", core->connection_count);
    nb_listeners_pause(core, true);
    return true;
}

/* Where not all may come, one that may not costs nobody his place. NULL: it has been closed. */
static nb_connection_t *let_in(nb_core_t *core, nb_door_t client, const struct sockaddr_storage *address) {
    nb_connection_t *place = core->connection_count >= core->settings.max_connections ? nb_crowd_first_to_go(core) : NULL;
    core->accepted++;
    nb_connection_t *connection = nb_connection_open(core, client, address);
    if (nb_guest_enter(connection)) {
        if (place) nb_crowd_evict(place);
        return connection;
    }
    nb_connection_close(connection);
    return NULL;
}

/* ---- by itself ---- */
static void admit(nb_core_t *core, nb_door_t client) {
    nb_connection_t *connection = let_in(core, client, NULL);
    if (connection && nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
}

static void wait_at_the_door(nb_core_t *core, nb_door_t client) {
    if (core->door_count == core->door_capacity) {
        core->door_capacity = core->door_capacity ? core->door_capacity * 2 : 16;
        REALLOC_N(core->door, nb_door_t, core->door_capacity);
    }
    core->door[core->door_count++] = client;
}

static void open_door(nb_core_t *core) {
    size_t admitted = 0;
    while (admitted < core->door_count && !is_full(core)) admit(core, core->door[admitted++]);
    core->door_count -= admitted;
    if (core->door_count) MEMMOVE(core->door, core->door + admitted, nb_door_t, core->door_count);
}

static int want(nb_listener_t *listener, bool wanted);

static void accepted(void *owner, nb_operation_t *operation, int result, bool more) {
    nb_listener_t *listener = owner;
    nb_core_t *core = listener->core;
    if (!more) listener->accepting = NULL;
    if (result >= 0) {
        nb_door_t client = {result, listener->local, listener->proxy};
        if (core->door_count || is_full(core)) wait_at_the_door(core, client);
        else admit(core, client);
    } else if (is_out_of_descriptors(-result)) {
        out_of_descriptors(core, -result);
    } /* else it was cancelled, or a client left before we came */
    if (more || !listener->wanted) return;
    int error = want(listener, true);
    if (error) nb_core_trouble(core, "listen", "no longer accepting: %s", strerror(error));
}

/* Not where several processes do: the kernel would hand all to the one that asked last, for as long as that one keeps up,
 * and with them the work of all their requests. Readiness wakes all of them, and whoever is free comes first. For that
 * reason the epoll back end does without EPOLLEXCLUSIVE too. */
static bool accepts_by_itself(nb_listener_t *listener) {
    if (listener->accepting) return true;
    if (listener->core->settings.shared) return false;
    listener->accepting = nb_operation_accept(listener->core->engine, listener->watch.fd, accepted, listener);
    return listener->accepting != NULL;
}

/* ---- when the kernel says that somebody came ---- */
/* Nobody is closed for one that has gone elsewhere. */
static bool somebody_waits(nb_listener_t *listener) {
    struct pollfd look = {.fd = listener->watch.fd, .events = POLLIN};
    return poll(&look, 1, 0) > 0;
}

static bool accept_next(nb_listener_t *listener) {
    nb_core_t *core = listener->core;
    if (core->connection_count >= core->settings.max_connections && (!somebody_waits(listener) || is_full(core))) return false;
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    int fd = accept_one(listener->watch.fd, &address, &length);
    if (fd < 0) {
        int error = errno;
        if (is_out_of_descriptors(error)) out_of_descriptors(core, error);
        return false; /* EAGAIN, or a client that left before we came */
    }
    nb_connection_t *connection = let_in(core, (nb_door_t){fd, listener->local, listener->proxy}, &address);
    if (connection) nb_connection_receive(connection); /* most often its request is there already */
    return true;
}

static void listener_ready(nb_watch_t *watch, int revents) {
    for (int i = 0; i < ACCEPTS && watch->engine && watch->events && accept_next(NB_ENTRY(watch, nb_listener_t, watch)); i++) {}
}

/* ---- listeners ---- */
static int want(nb_listener_t *listener, bool wanted) {
    nb_watch_t *watch = &listener->watch;
    listener->wanted = wanted;
    if (!wanted && listener->accepting) nb_operation_cancel(listener->core->engine, listener->accepting);
    if (wanted && accepts_by_itself(listener)) return 0;
    if (watch->engine) return nb_watch_want(watch, wanted ? RUBY_IO_READABLE : 0);
    return wanted ? nb_watch_open(listener->core->engine, watch, watch->fd, RUBY_IO_READABLE) : 0;
}

void nb_listener_open(nb_core_t *core, VALUE io, bool proxy) {
    int fd = rb_io_descriptor(io);
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0) rb_sys_fail("listen: not a socket");
    nb_listener_t *listener = ALLOC(nb_listener_t);
    *listener = (nb_listener_t){.watch = {.fd = fd, .ready = listener_ready}, .core = core, .io = io,
                                .local = address.ss_family == AF_UNIX, .proxy = proxy};
    int one = 1;
    if (!listener->local) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* those accepted inherit it */
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    int error = want(listener, true);
    if (error) {
        xfree(listener);
        rb_syserr_fail(error, "listen");
    }
    nb_list_append(&core->listeners, &listener->link);
}

void nb_listeners_pause(nb_core_t *core, bool paused) {
    core->paused = paused;
    if (!paused) open_door(core);
    if (!paused && core->door_count) core->paused = true;
    bool wanted = !core->paused && !core->standing_back;
    for (nb_link_t *l = core->listeners.next; l != &core->listeners; l = l->next) want(NB_ENTRY(l, nb_listener_t, link), wanted);
}

/* Who waits for room is let in, for a connection that has become idle; not where descriptors are what is lacking. */
void nb_listeners_retry(nb_core_t *core) {
    if (core->paused && !core->draining && core->connection_count >= core->settings.max_connections) nb_listeners_pause(core, false);
}

void nb_listeners_stand_back(nb_core_t *core, bool standing_back) {
    core->standing_back = standing_back;
    nb_listeners_pause(core, core->paused);
}

/* Whom the kernel has let in came in time: closing the listeners would reset them. */
void nb_listeners_empty(nb_core_t *core) {
    for (nb_link_t *l = core->listeners.next; l != &core->listeners; l = l->next) {
        nb_listener_t *listener = NB_ENTRY(l, nb_listener_t, link);
        if (!listener->wanted) continue;
        want(listener, false);
        if (listener->accepting) nb_operation_stop(core->engine, listener->accepting);
        for (int i = 0; i < LAST_ACCEPTS && accept_next(listener); i++) {}
    }
}

void nb_listeners_close(nb_core_t *core) {
    while (!nb_list_empty(&core->listeners)) {
        nb_listener_t *listener = NB_ENTRY(core->listeners.next, nb_listener_t, link);
        nb_list_remove(&listener->link);
        want(listener, false);
        if (listener->accepting) nb_operation_stop(core->engine, listener->accepting); /* it would keep the socket listening */
        nb_watch_close(&listener->watch, false);
        xfree(listener);
    }
    while (core->door_count) close(core->door[--core->door_count].fd);
}
