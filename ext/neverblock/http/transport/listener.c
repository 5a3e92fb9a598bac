/*
 * Accepting. Each event of a listener accepts a bounded number of connections; the rest come with the next event. So a
 * flood of connections cannot keep other work waiting.
 *
 * Where several processes share the sockets, a client that another process should take (balance.c) is left to it for
 * PATIENCE. The other process may compute, or have no processor, and the client must not wait for it. But a burst must
 * not end up in the one process that is awake. So this process accepts one client late, then two, three, … If it
 * computes itself, it leaves clients to others for longer: they would wait here as well.
 *
 * A back end that accepts by itself (engine/operations.c) may accept more than max_connections. Those wait in
 * transport->accepted, as they would in the kernel's backlog.
 */
#include "transport.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <ruby/io.h>
#include <unistd.h>
#if defined __linux__ && !defined NB_PORTABLE
#include <linux/filter.h>
#define CAN_FILTER
#endif

#define ACCEPTS 32
#define LAST_ACCEPTS 4096
#define PATIENCE (2 * NB_MILLISECOND)
#define LONGEST_PATIENCE (100 * NB_MILLISECOND)

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
/* Too many open files: accepting stops until the next tick. The event stays, and would make the loop spin. */
static void out_of_descriptors(nb_transport_t *transport, int error) {
    nb_listeners_pause(transport, true);
    nb_transport_tick_soon(transport);
    nb_transport_report(transport, "descriptors",
                        "accepting pauses: %s with %zu connections open; "
                        "raise the limit (ulimit -n) or lower max_connections",
                        strerror(error), transport->connection_count + transport->hijacked_count);
}

static bool is_out_of_descriptors(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static bool is_full(nb_transport_t *transport) {
    if (!nb_transport_is_full(transport) || nb_eviction_candidate(transport)) return false;
    if (!transport->paused)
        nb_transport_report(transport, "connections",
                            "accepting pauses: %zu connections are open, none of them idle (max_connections)",
                            transport->connection_count + transport->hijacked_count);
    nb_listeners_pause(transport, true);
    return true;
}

/* An idle connection is closed only for a client that is let in. NULL: this one was closed. */
static nb_connection_t *let_in(nb_transport_t *transport, nb_accepted_t client,
                               const struct sockaddr_storage *address) {
    nb_connection_t *place = nb_transport_is_full(transport) ? nb_eviction_candidate(transport) : NULL;
    transport->accepted_total++;
    nb_connection_t *connection = nb_connection_open(transport, client, address);
    if (nb_address_limit_acquire(connection)) {
        if (place) nb_connection_evict(place);
        return connection;
    }
    nb_connection_close(connection);
    return NULL;
}

/* ---- the back end accepts by itself ---- */
static void admit(nb_transport_t *transport, nb_accepted_t client) {
    nb_connection_t *connection = let_in(transport, client, NULL);
    if (connection && nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
}

static void hold(nb_transport_t *transport, nb_accepted_t client) {
    if (transport->accepted_count == transport->accepted_capacity) {
        size_t capacity = transport->accepted_capacity ? transport->accepted_capacity * 2 : 16;
        REALLOC_N(transport->accepted, nb_accepted_t, capacity);
        transport->accepted_capacity = capacity;
    }
    transport->accepted[transport->accepted_count++] = client;
}

static void admit_held(nb_transport_t *transport) {
    size_t admitted = 0;
    while (admitted < transport->accepted_count && !is_full(transport))
        admit(transport, transport->accepted[admitted++]);
    transport->accepted_count -= admitted;
    if (!transport->accepted_count) return;
    MEMMOVE(transport->accepted, transport->accepted + admitted, nb_accepted_t, transport->accepted_count);
}

static int want(nb_listener_t *listener, bool wanted);
static void update(nb_transport_t *);

static bool accepts(const nb_transport_t *transport) {
    return !transport->paused && !transport->standing_back && !transport->patience.index;
}

static void accepted(void *owner, nb_operation_t *operation, int result, bool more) {
    nb_listener_t *listener = owner;
    nb_transport_t *transport = listener->transport;
    if (!more) listener->accepting = NULL;
    if (result >= 0) {
        nb_accepted_t client = {result, listener->local, listener->proxy};
        if (transport->accepted_count || is_full(transport)) hold(transport, client);
        else admit(transport, client);
    } else if (is_out_of_descriptors(-result)) {
        out_of_descriptors(transport, -result);
    } /* else it was cancelled, or the client has left already */
    if (more || !listener->wanted) return;
    int error = want(listener, true);
    if (error) nb_transport_report(transport, "listen", "no longer accepting: %s", strerror(error));
}

/* Not where several processes share a socket: the kernel would hand all connections to the one that asked last, for as
 * long as that one keeps up, and with them all requests. Readiness wakes all processes, and the first free one accepts.
 * For the same reason the epoll back end does without EPOLLEXCLUSIVE. */
static bool accepts_by_itself(nb_listener_t *listener) {
    if (listener->accepting) return true;
    if (listener->transport->balance) return false;
    listener->accepting = nb_operation_accept(listener->transport->engine, listener->watch.fd, accepted, listener);
    return listener->accepting != NULL;
}

/* ---- the kernel tells of a client ---- */
/* No connection is closed for a client that another process has accepted. */
static bool client_waits(nb_listener_t *listener) {
    struct pollfd look = {.fd = listener->watch.fd, .events = POLLIN};
    return poll(&look, 1, 0) > 0;
}

static bool accept_next(nb_listener_t *listener) {
    nb_transport_t *transport = listener->transport;
    if (nb_transport_is_full(transport) && (!client_waits(listener) || is_full(transport))) return false;
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    int fd = accept_one(listener->watch.fd, &address, &length);
    if (fd < 0) {
        int error = errno;
        if (is_out_of_descriptors(error)) out_of_descriptors(transport, error);
        return false; /* EAGAIN, or the client has left already */
    }
    nb_connection_t *connection = let_in(transport, (nb_accepted_t){fd, listener->local, listener->proxy}, &address);
    if (connection) nb_connection_receive(connection); /* most often its request is there already */
    return true;
}

static void be_patient(nb_transport_t *transport, uint64_t now) {
    transport->patience.deadline = now + PATIENCE;
    nb_timer_arm(transport->engine, &transport->patience);
}

static void leave_to_others(nb_transport_t *transport) {
    transport->left_since = nb_now();
    be_patient(transport, transport->left_since);
    update(transport);
}

/* This process' own loop was late, so it computes. */
static bool is_busy(const nb_transport_t *transport, uint64_t now) {
    return now - transport->patience.deadline > PATIENCE && now - transport->left_since < LONGEST_PATIENCE;
}

static void accept_late(nb_transport_t *transport) {
    unsigned most = transport->late_accepts, accepted = 0;
    for (nb_link_t *l = transport->listeners.next; l != &transport->listeners; l = l->next)
        while (accepted < most && accepts(transport) && accept_next(NB_ENTRY(l, nb_listener_t, link))) accepted++;
    if (accepted < most) transport->late_accepts = 1;
    else if (most < ACCEPTS) transport->late_accepts++;
}

void nb_listeners_patience_ended(nb_engine_t *engine, nb_timer_t *timer) {
    nb_transport_t *transport = NB_ENTRY(timer, nb_transport_t, patience);
    uint64_t now = nb_now();
    if (!nb_balance_permits(transport)) {
        if (is_busy(transport, now)) {
            be_patient(transport, now);
            return;
        }
        accept_late(transport);
    }
    update(transport);
}

static void listener_ready(nb_watch_t *watch, int revents) {
    nb_listener_t *listener = NB_ENTRY(watch, nb_listener_t, watch);
    nb_transport_t *transport = listener->transport;
    if (!watch->engine || !watch->events) return;
    if (!nb_balance_permits(transport)) {
        leave_to_others(transport);
        return;
    }
    for (int i = 0; i < ACCEPTS && watch->engine && watch->events; i++)
        if (!accept_next(listener) || !nb_balance_permits(transport)) return;
}

/* ---- listeners ---- */
static int want(nb_listener_t *listener, bool wanted) {
    nb_watch_t *watch = &listener->watch;
    listener->wanted = wanted;
    if (!wanted && listener->accepting) nb_operation_cancel(listener->transport->engine, listener->accepting);
    if (wanted && accepts_by_itself(listener)) return 0;
    if (watch->engine) return nb_watch_want(watch, wanted ? RUBY_IO_READABLE : 0);
    return wanted ? nb_watch_open(listener->transport->engine, watch, watch->fd, RUBY_IO_READABLE) : 0;
}

void nb_listener_open(nb_transport_t *transport, VALUE io, bool proxy) {
    int fd = rb_io_descriptor(io);
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0) rb_sys_fail("listen: not a socket");
    nb_listener_t *listener = ALLOC(nb_listener_t);
    *listener = (nb_listener_t){.watch = {.fd = fd, .ready = listener_ready}, .transport = transport, .io = io,
                                .local = address.ss_family == AF_UNIX, .proxy = proxy};
    int one = 1;
    if (!listener->local) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* those accepted inherit it */
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    int error = want(listener, true);
    if (error) {
        xfree(listener);
        rb_syserr_fail(error, "listen");
    }
    nb_list_append(&transport->listeners, &listener->link);
    nb_balance_tell(transport);
}

static void update(nb_transport_t *transport) {
    for (nb_link_t *l = transport->listeners.next; l != &transport->listeners; l = l->next)
        want(NB_ENTRY(l, nb_listener_t, link), accepts(transport));
    nb_balance_tell(transport);
}

void nb_listeners_pause(nb_transport_t *transport, bool paused) {
    transport->paused = paused;
    if (!paused) admit_held(transport);
    if (!paused && transport->accepted_count) transport->paused = true;
    update(transport);
}

/* A connection has become idle, and may make room. Below the limit, accepting pauses for want of
 * descriptors: the tick retries. */
void nb_listeners_retry(nb_transport_t *transport) {
    if (transport->paused && !transport->draining && nb_transport_is_full(transport))
        nb_listeners_pause(transport, false);
}

void nb_listeners_stand_back(nb_transport_t *transport, bool standing_back) {
    transport->standing_back = standing_back;
    nb_listeners_pause(transport, transport->paused);
}

void nb_listeners_count(nb_transport_t *transport) {
    nb_balance_tell(transport);
    if (!transport->patience.index || !nb_balance_permits(transport)) return;
    nb_timer_cancel(transport->engine, &transport->patience);
    update(transport);
}

/* From here on no connection is made that would be reset when the socket is closed. TCP has no such call; so a filter
 * drops the clients' SYNs, which they send again after a second, and what is in the backlog already can be accepted. */
static void admit_no_more(const nb_listener_t *listener) {
    int fd = listener->watch.fd;
    if (listener->local) {
        shutdown(fd, SHUT_RD);
        return;
    }
#ifdef CAN_FILTER
    enum { FLAGS = 13, SYN = 0x02 }; /* where the TCP header has its flags, and the first of a connection */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program); /* without it a few may be reset */
#endif
}

/* Refuses clients, in place of the close, which comes later, and in Ruby. */
static void refuse_clients(const nb_listener_t *listener) {
#ifdef CAN_FILTER /* elsewhere this is an error, or has no effect */
    if (!listener->local) shutdown(listener->watch.fd, SHUT_RD);
#endif
}

/* Connections in the kernel's backlog came in time: closing the listeners would reset them. */
void nb_listeners_empty(nb_transport_t *transport, bool last) {
    bool wanted = !transport->paused && !transport->standing_back; /* the others may end at the same time */
    nb_timer_cancel(transport->engine, &transport->patience);
    for (nb_link_t *l = transport->listeners.next; l != &transport->listeners; l = l->next) {
        nb_listener_t *listener = NB_ENTRY(l, nb_listener_t, link);
        want(listener, false);
        if (last) admit_no_more(listener);
        if (listener->accepting) nb_operation_stop(transport->engine, listener->accepting);
        for (int i = 0; wanted && i < LAST_ACCEPTS && accept_next(listener); i++) {}
        if (last) refuse_clients(listener);
    }
}

void nb_listeners_close(nb_transport_t *transport) {
    nb_timer_cancel(transport->engine, &transport->patience);
    while (!nb_list_empty(&transport->listeners)) {
        nb_listener_t *listener = NB_ENTRY(transport->listeners.next, nb_listener_t, link);
        nb_list_remove(&listener->link);
        want(listener, false);
        /* It would keep the socket listening. */
        if (listener->accepting) nb_operation_stop(transport->engine, listener->accepting);
        nb_watch_close(&listener->watch, false);
        xfree(listener);
    }
    nb_balance_tell(transport);
    while (transport->accepted_count) close(transport->accepted[--transport->accepted_count].fd);
}
