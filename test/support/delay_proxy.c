/*
 * A slow network between clients and a server on one machine: all bytes are delayed by half a round trip each way, and the
 * network can be cut, fall silent or refuse connections. One process, one epoll and one timer: a chunk costs a few
 * microseconds, so that the proxy itself does not show in measurements.
 *
 *   cc -O2 delay_proxy.c -o delay_proxy
 *   ./delay_proxy 500 /run/postgresql/.s.PGSQL.5432              # 500 µs of round trip; prints its port on 127.0.0.1
 *   ./delay_proxy 500 5432 /tmp/mine/.s.PGSQL.6000               # to a port; from that unix socket too
 *
 * Commands, a line each, on standard input; each is answered with "ok", a number, or "error: …" once it has been done:
 *
 *   cut              closes all connections at once, with a reset where the other end is TCP
 *   silence          forwards nothing, closes nothing, accepts nothing
 *   answers BYTES    forwards so many more bytes from the server, then falls silent
 *   refuse           closes new connections, keeps the others
 *   resume           ends all of these; bytes held back go first
 *   delay MICROS     another round trip, for bytes received from now on
 *   count            how many connections are open
 *   trips            how often clients have spoken, since the last such command, after an answer or for the first time
 *   end              as the end of standard input does
 *
 * Bytes arrive in order, and so do the end and the reset of a connection. At most ROOM bytes are held for each direction of
 * a connection; then the sender has to wait.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 256 * 1024, EVENTS = 256, LINE = 256, BACKLOG = 4096 };

/* Chunks that are due this soon are sent with those that are due already, which saves a wake-up. */
static const uint64_t EARLY = 20000;
static const uint64_t UNLIMITED = UINT64_MAX;

enum side { CLIENT, SERVER };
enum ending { GOES_ON, END, RESET };

struct connection;

/* The data that epoll returns for a socket. */
struct mouth {
    struct connection *connection;
    enum side side;
};

/* The bytes on their way from one side to the other: a ring; its first `due` bytes may be sent. */
struct flow {
    char *bytes;
    size_t start, length, due;
    bool readable, hung_up; /* its source; readiness is edge-triggered, so it is kept here */
    bool writable;          /* its destination, as far as is known */
    bool ended;             /* nothing more is read */
    enum ending ending;     /* how the connection ends after the last byte */
    bool finished;          /* nothing more is written */
};

struct connection {
    int fd[2];
    struct mouth mouth[2];
    struct flow flow[2]; /* by the side it comes from */
    size_t underway;     /* chunks in the queue */
    bool closed;
    bool awaits; /* the client was the last to send */
    struct connection *before, *after; /* among the open ones; `after` among the closed ones too */
};

/* Chunks, one per read, in the order in which they are due: that of reading, since no chunk overtakes another. */
struct chunk {
    struct connection *connection;
    uint64_t due;
    uint32_t length;
    uint8_t from, ending;
};

static struct {
    struct chunk *chunks;
    size_t size, first, length; /* the size is a power of two */
    uint64_t last_due, armed;
} queue;

static struct connection *open_ones, *closed_ones;
static unsigned long open_count, trips;
static int epoll, timer, listeners[2], listener_count;
static uint64_t half, quota = UINT64_MAX;
static bool silent, refusing;

static union { struct sockaddr any; struct sockaddr_in tcp; struct sockaddr_un path; } target;
static socklen_t target_length;

static void die(const char *what) {
    fprintf(stderr, "delay proxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0) die("clock_gettime");
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *allocate(size_t size) {
    void *memory = malloc(size);
    if (!memory) die("malloc");
    return memory;
}

/* ---- connections ---- */

static void drop(struct connection *connection, bool reset) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (connection->closed) return;
    for (int side = 0; side < 2; side++) {
        if (reset) setsockopt(connection->fd[side], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* a unix socket has none */
        close(connection->fd[side]);
    }
    connection->closed = true;
    if (connection->before) connection->before->after = connection->after; else open_ones = connection->after;
    if (connection->after) connection->after->before = connection->before;
    open_count--;
    connection->after = closed_ones;
    closed_ones = connection;
}

/* Frees connections between turns of the loop, when no event refers to them; queued chunks still do until they are due. */
static void free_closed(void) {
    struct connection **place = &closed_ones;
    while (*place) {
        struct connection *connection = *place;
        if (connection->underway) { place = &connection->after; continue; }
        *place = connection->after;
        free(connection->flow[CLIENT].bytes);
        free(connection->flow[SERVER].bytes);
        free(connection);
    }
}

/* Waits for writability only after a full buffer: otherwise each read of the other end would wake this process. */
static void await_room(struct connection *connection, enum side side, bool awaited) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (awaited ? EPOLLOUT : 0u), .data.ptr = &connection->mouth[side]};
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd[side], &event) != 0) die("epoll_ctl");
    connection->flow[!side].writable = !awaited;
}

/* ---- chunks ---- */

static void put(struct connection *connection, enum side from, size_t length, enum ending ending) {
    uint64_t due = now() + half;
    if (due < queue.last_due) due = queue.last_due; /* the delay has become shorter: still nothing is overtaken */
    queue.last_due = due;
    if (queue.length == queue.size) {
        size_t size = queue.size ? queue.size * 2 : 1024;
        struct chunk *chunks = allocate(size * sizeof *chunks);
        for (size_t i = 0; i < queue.length; i++) chunks[i] = queue.chunks[(queue.first + i) & (queue.size - 1)];
        free(queue.chunks);
        queue.chunks = chunks;
        queue.size = size;
        queue.first = 0;
    }
    queue.chunks[(queue.first + queue.length++) & (queue.size - 1)] = (struct chunk){
        .connection = connection, .due = due, .length = (uint32_t)length, .from = (uint8_t)from, .ending = (uint8_t)ending};
    connection->underway++;
}

/* Reads until there is nothing more, or no room. */
static void take(struct connection *connection, enum side from) {
    struct flow *flow = &connection->flow[from];
    while (!silent && !connection->closed && flow->readable && !flow->ended && flow->length < ROOM) {
        size_t at = (flow->start + flow->length) % ROOM;
        size_t room = at < flow->start ? flow->start - at : ROOM - at;
        ssize_t size = recv(connection->fd[from], flow->bytes + at, room, MSG_DONTWAIT);
        if (size > 0) {
            if (from == CLIENT && !connection->awaits) trips++;
            connection->awaits = from == CLIENT;
            flow->length += (size_t)size;
            put(connection, from, (size_t)size, GOES_ON);
            if ((size_t)size < room && !flow->hung_up) flow->readable = false; /* there is no more: the next brings an edge */
        } else if (size < 0 && errno == EAGAIN) {
            flow->readable = false;
        } else if (size == 0 || errno != EINTR) {
            flow->ended = true;
            put(connection, from, 0, size == 0 ? END : RESET);
        }
    }
}

static void finish(struct connection *connection, enum side from) {
    struct flow *flow = &connection->flow[from];
    flow->finished = true;
    if (flow->ending == RESET)
        drop(connection, true);
    else if (connection->flow[!from].finished)
        drop(connection, false);
    else if (flow->ending == END)
        shutdown(connection->fd[!from], SHUT_WR);
}

/* Writes as many due bytes as the socket takes, then reads into the freed space. */
static void give(struct connection *connection, enum side from) {
    struct flow *flow = &connection->flow[from];
    if (connection->closed || flow->finished) return;
    while (!silent && flow->due && flow->writable) {
        size_t part = flow->due < ROOM - flow->start ? flow->due : ROOM - flow->start;
        if (from == SERVER && part > quota) part = (size_t)quota;
        ssize_t size = send(connection->fd[!from], flow->bytes + flow->start, part, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) {
            await_room(connection, !from, true);
        } else if (size < 0) { /* the peer reads no more; the other direction ends by itself */
            finish(connection, from);
            return;
        } else {
            flow->start = (flow->start + (size_t)size) % ROOM;
            flow->length -= (size_t)size;
            flow->due -= (size_t)size;
            if (from == SERVER && quota != UNLIMITED && (quota -= (uint64_t)size) == 0) silent = true;
        }
    }
    if (!flow->length) flow->start = 0; /* so that few pages are touched */
    if (silent) return;
    if (!flow->due && flow->ending) finish(connection, from); else take(connection, from);
}

static void forward_what_is_due(void) {
    uint64_t soon = now() + EARLY;
    while (!silent && queue.length && queue.chunks[queue.first].due <= soon) {
        struct chunk chunk = queue.chunks[queue.first];
        struct flow *flow = &chunk.connection->flow[chunk.from];
        queue.first = (queue.first + 1) & (queue.size - 1);
        queue.length--;
        chunk.connection->underway--;
        flow->due += chunk.length;
        if (chunk.ending) flow->ending = (enum ending)chunk.ending;
        give(chunk.connection, (enum side)chunk.from);
    }
}

/* The timer is edge-triggered as well, so it need not be read. */
static void arm(void) {
    uint64_t due = queue.length && !silent ? queue.chunks[queue.first].due : 0;
    if (due == queue.armed) return;
    struct itimerspec at = {.it_value = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL) != 0) die("timerfd_settime");
    queue.armed = due;
}

/* ---- sockets ---- */

static void watch(int fd, uint32_t events, void *mark) {
    struct epoll_event event = {.events = events, .data.ptr = mark};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
}

static void without_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a unix socket has no such thing */
}

static void close_at_once(int fd) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

static void begin(int client) {
    int server = refusing ? -1 : socket(target.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server < 0) { close_at_once(client); return; }
    if (connect(server, &target.any, target_length) != 0 && errno != EINPROGRESS) { /* no listener, or a full queue */
        close(server);
        close_at_once(client);
        return;
    }
    struct connection *connection = allocate(sizeof *connection);
    *connection = (struct connection){.fd = {client, server}, .after = open_ones};
    if (open_ones) open_ones->before = connection;
    open_ones = connection;
    open_count++;
    for (int side = 0; side < 2; side++) {
        without_delay(connection->fd[side]);
        connection->mouth[side] = (struct mouth){connection, (enum side)side};
        connection->flow[side] = (struct flow){.bytes = allocate(ROOM), .writable = true};
        watch(connection->fd[side], EPOLLIN | EPOLLRDHUP | EPOLLET, &connection->mouth[side]);
    }
}

static void accept_all(int listener) {
    while (!silent) {
        int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0) begin(client);
        else if (errno == EAGAIN) return;
        else if (errno != EINTR && errno != ECONNABORTED) die("accept");
    }
}

static void happened(struct mouth *mouth, uint32_t events) {
    struct connection *connection = mouth->connection;
    struct flow *from = &connection->flow[mouth->side];
    if (connection->closed) return; /* by an earlier event of this turn */
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) from->hung_up = true;
    if (from->hung_up || events & EPOLLIN) from->readable = true;
    if (!connection->flow[!mouth->side].writable && events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) await_room(connection, mouth->side, false);
    take(connection, mouth->side);
    give(connection, !mouth->side);
}

static socklen_t name(struct sockaddr_un *address, const char *path) {
    if (strlen(path) >= sizeof address->sun_path) { errno = ENAMETOOLONG; die(path); }
    address->sun_family = AF_UNIX;
    strcpy(address->sun_path, path);
    return sizeof *address;
}

static socklen_t loopback(struct sockaddr_in *address, int port) {
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address->sin_port = htons((uint16_t)port);
    return sizeof *address;
}

static int listen_at(struct sockaddr *address, socklen_t length) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, address, length) != 0 || listen(fd, BACKLOG) != 0) die("listen");
    watch(fd, EPOLLIN | EPOLLET, &listeners[listener_count]);
    return listeners[listener_count++] = fd;
}

/* ---- commands ---- */

static void cut(void) {
    while (open_ones) drop(open_ones, true);
}

static void resume(void) {
    silent = refusing = false;
    quota = UNLIMITED;
    for (int i = 0; i < listener_count; i++) accept_all(listeners[i]);
    forward_what_is_due();
    for (struct connection *connection = open_ones, *next; connection; connection = next) {
        next = connection->after;
        for (int side = 0; side < 2; side++) {
            take(connection, (enum side)side);
            give(connection, (enum side)side);
        }
    }
}

static bool number(const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static void obey(const char *line) {
    uint64_t value;
    if (strcmp(line, "count") == 0) { printf("%lu\n", open_count); return; }
    if (strcmp(line, "trips") == 0) { printf("%lu\n", trips); trips = 0; return; }
    if (strcmp(line, "cut") == 0) cut();
    else if (strcmp(line, "silence") == 0) silent = true;
    else if (strcmp(line, "refuse") == 0) refusing = true;
    else if (strcmp(line, "resume") == 0) resume();
    else if (strcmp(line, "end") == 0) exit(0);
    else if (strncmp(line, "delay ", 6) == 0 && number(line + 6, &value)) half = value * 500;
    else if (strncmp(line, "answers ", 8) == 0 && number(line + 8, &value)) { quota = value; silent = silent || !value; }
    else { printf("error: no such command: %s\n", line); return; }
    printf("ok\n");
}

/* Several lines may come at once, or half a line. */
static void read_commands(void) {
    static char line[LINE];
    static size_t length;
    ssize_t size = read(STDIN_FILENO, line + length, LINE - 1 - length);
    if (size < 0 && errno == EINTR) return;
    if (size <= 0) exit(0);
    length += (size_t)size;
    line[length] = '\0';
    char *start = line;
    for (char *end; (end = strchr(start, '\n')); start = end + 1) {
        *end = '\0';
        obey(start);
    }
    length = strlen(start);
    memmove(line, start, length + 1);
    if (length == LINE - 1) { errno = EMSGSIZE; die("a command"); }
    fflush(stdout);
}

static void prepare(const char *round_trip, const char *to) {
    struct rlimit files;
    uint64_t value;
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (!number(round_trip, &value)) { errno = EINVAL; die(round_trip); }
    half = value * 500;
    if (strchr(to, '/')) target_length = name(&target.path, to);
    else if (number(to, &value) && value < 65536) target_length = loopback(&target.tcp, (int)value);
    else { errno = EINVAL; die(to); }
    if ((epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) die("epoll_create1");
    if ((timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) < 0) die("timerfd_create");
    watch(timer, EPOLLIN | EPOLLET, &timer);
    watch(STDIN_FILENO, EPOLLIN, &queue);
}

int main(int count, char **arguments) {
    struct epoll_event events[EVENTS];
    struct sockaddr_in tcp = {0};
    if (count != 3 && count != 4) {
        fprintf(stderr, "usage: %s ROUND-TRIP-IN-MICROSECONDS PORT-OR-PATH [PATH]\n", arguments[0]);
        return 2;
    }
    prepare(arguments[1], arguments[2]);
    socklen_t length = loopback(&tcp, 0);
    int listener = listen_at((struct sockaddr *)&tcp, length);
    if (getsockname(listener, (struct sockaddr *)&tcp, &length) != 0) die("getsockname");
    if (count == 4) {
        struct sockaddr_un path = {0};
        length = name(&path, arguments[3]);
        listen_at((struct sockaddr *)&path, length);
    }
    printf("%d\n", ntohs(tcp.sin_port));
    fflush(stdout);
    for (;;) {
        int happenings = epoll_wait(epoll, events, EVENTS, -1);
        if (happenings < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < happenings; i++) {
            void *mark = events[i].data.ptr;
            if (mark == &queue) read_commands();
            else if (mark == &timer) queue.armed = 0; /* it has gone off */
            else if (mark == &listeners[0] || mark == &listeners[1]) accept_all(*(int *)mark);
            else happened(mark, events[i].events);
        }
        forward_what_is_due();
        arm();
        free_closed();
    }
}
