/*
 * The client of the rows for which wrk is none: several loads at once in one loop, and
 * loads of a set rate, timed from the moment at which a request should have been sent.
 * A server that keeps clients waiting thus cannot hide it by slowing them down.
 *
 *   cc -O2 load.c -o load
 *   load PORT WARM SECONDS LIMIT  KIND CONNECTIONS RATE REQUEST  ...    # prints one line of JSON
 *   load 3000 0 2 0  paced 128 5000 "$hello"  closed 500 0 "$slow"
 *
 * Kinds of load: "closed", each connection sends when it has been answered; "paced",
 * RATE requests a second over whichever connection is free; "fresh", RATE a second,
 * each over a connection of its own; "every", of no connections: what each RATE-th request
 * of the closed load before it asks instead, the first of all too. A request is given as its bytes, and answered when
 * the last byte of a 200 is here. WARM seconds pass before anything is counted.
 *
 * With a LIMIT it sends so many requests: it lets each connection be answered once,
 * prints "ready", waits for a line, then goes on, so that what is counted by others
 * begins there.
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
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "clock.h"
#include "histogram.h"

enum { EVENTS = 512, HEAD = 4096, BUFFER = 1 << 18, LOADS = 8, MOST_ERRORS = 20000 };

enum kind { CLOSED, PACED, FRESH, EVERY };
static const char *const kinds[] = {"closed", "paced", "fresh", "every"};

struct load {
    enum kind kind;
    const char *request;
    size_t length;
    int connections;
    double interval;             /* ns between two requests of a rate */
    uint64_t issued;             /* of those that a rate wants; of all, where some ask for something else */
    struct load *instead;        /* what each so manyth asks */
    uint64_t every;
    struct connection *all, *spare;
    uint64_t answers, errors;
    struct histogram times;
};

enum state { SPARE, CONNECTING, SENDING, RECEIVING };
enum part { IN_HEAD, IN_LENGTH, CHUNK_SIZE, CHUNK_BYTES, CHUNK_END, LAST_LINE, UNTIL_CLOSE, WHOLE };

struct connection {
    struct load *load, *asked;
    struct connection *next; /* among the spare ones of its load */
    int fd;                  /* -1: not open */
    enum state state;
    uint64_t since;          /* when its request should have been sent */
    size_t sent;
    enum part part;
    bool kept, right;        /* whether the peer keeps it open, and said 200 */
    uint64_t left;           /* bytes of the body or chunk */
    size_t line;             /* bytes of the line in the chunked coding */
    size_t held;             /* bytes of an unfinished head */
    char head[HEAD];
};

static struct sockaddr_in server;
static struct load loads[LOADS];
static int load_count, epoll;
static uint64_t started, counts_from, ends_at, limit, begun, answered;
static bool first_round;
static char buffer[BUFFER];

static void begin(struct connection *connection, uint64_t since);

/* Connections. */

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void shut(struct connection *connection) {
    if (connection->fd >= 0) close(connection->fd);
    connection->fd = -1;
}

static void set_aside(struct connection *connection) {
    connection->state = SPARE;
    connection->next = connection->load->spare;
    connection->load->spare = connection;
}

static void finish(struct connection *connection, bool right) {
    struct load *load = connection->load, *asked = connection->asked;
    uint64_t at = now();
    if (at >= counts_from && !first_round) {
        if (right) asked->answers++; else asked->errors++;
        if (connection->since >= counts_from) note(&asked->times, at - connection->since);
    }
    answered++;
    if (!right || !connection->kept || load->kind == FRESH) shut(connection);
    if (asked->errors > MOST_ERRORS) {
        fprintf(stderr, "load: more than %d errors\n", MOST_ERRORS);
        exit(1);
    }
    bool more = load->kind == CLOSED && !first_round && (!limit || begun < limit);
    if (more) begin(connection, at);
    else set_aside(connection);
}

static void transmit(struct connection *connection) {
    struct load *load = connection->asked;
    while (connection->sent < load->length) {
        ssize_t size = send(connection->fd, load->request + connection->sent, load->length - connection->sent, MSG_NOSIGNAL);
        if (size < 0 && errno == EAGAIN) return;
        if (size < 0) { finish(connection, false); return; }
        connection->sent += (size_t)size;
    }
    connection->state = RECEIVING;
}

static void begin(struct connection *connection, uint64_t since) {
    struct load *load = connection->load, *instead = first_round ? NULL : load->instead;
    begun++;
    connection->asked = instead && load->issued++ % instead->every == 0 ? instead : load;
    connection->since = since;
    connection->sent = connection->held = 0;
    connection->part = IN_HEAD;
    connection->kept = true;
    connection->state = SENDING;
    if (connection->fd < 0) {
        int yes = 1;
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.ptr = connection};
        connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connection->fd < 0) die("load: socket");
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (connect(connection->fd, (struct sockaddr *)&server, sizeof server) != 0) {
            if (errno != EINPROGRESS) die("load: connect");
            connection->state = CONNECTING;
        }
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0) die("load: epoll_ctl");
    }
    if (connection->state == SENDING) transmit(connection);
}

/* Answers. */

static bool has(const char *head, const char *line_start) { return strcasestr(head, line_start) != NULL; }

static void read_head(struct connection *connection) {
    const char *head = connection->head, *length = strcasestr(head, "\r\ncontent-length:");
    connection->right = strncmp(head, "HTTP/1.1 200", 12) == 0;
    connection->kept = !has(head, "\r\nconnection: close") && !has(head, "\r\nconnection:close");
    connection->line = 0;
    connection->left = 0;
    if (has(head, "\r\ntransfer-encoding:")) connection->part = CHUNK_SIZE;
    else if (length) {
        connection->left = strtoull(length + 17, NULL, 10);
        connection->part = connection->left ? IN_LENGTH : WHOLE;
    } else connection->part = UNTIL_CLOSE;
}

/* Takes as much of the head as is here; returns the bytes taken. */
static size_t take_head(struct connection *connection, const char *bytes, size_t size) {
    size_t room = HEAD - 1 - connection->held, taken = size < room ? size : room, before = connection->held;
    memcpy(connection->head + before, bytes, taken);
    connection->head[before + taken] = '\0';
    char *end = strstr(connection->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
    if (!end) {
        if (taken == room) { fprintf(stderr, "load: a head of more than %d bytes\n", HEAD); exit(1); }
        connection->held += taken;
        return taken;
    }
    end[2] = '\0';
    read_head(connection);
    return (size_t)(end + 4 - connection->head) - before;
}

static int digit(char byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* One byte of the chunked coding's own; extensions are not expected. */
static void take_chunk_line(struct connection *connection, char byte) {
    if (byte == '\r') return;
    if (byte != '\n') {
        connection->line++;
        if (connection->part == CHUNK_SIZE && digit(byte) >= 0) connection->left = connection->left * 16 + (uint64_t)digit(byte);
        return;
    }
    if (connection->part == CHUNK_END) connection->part = CHUNK_SIZE;
    else if (connection->part == CHUNK_SIZE) connection->part = connection->left ? CHUNK_BYTES : LAST_LINE;
    else if (connection->line == 0) connection->part = WHOLE;
    connection->line = 0;
}

static void take(struct connection *connection, const char *bytes, size_t size) {
    while (size > 0 && connection->part != WHOLE) {
        size_t taken = 1;
        switch (connection->part) {
        case IN_HEAD: taken = take_head(connection, bytes, size); break;
        case IN_LENGTH:
        case CHUNK_BYTES:
            taken = size < connection->left ? size : (size_t)connection->left;
            connection->left -= taken;
            if (connection->left == 0) connection->part = connection->part == IN_LENGTH ? WHOLE : CHUNK_END;
            break;
        case UNTIL_CLOSE: taken = size; break;
        default: take_chunk_line(connection, *bytes);
        }
        bytes += taken;
        size -= taken;
    }
}

static void receive(struct connection *connection) {
    for (;;) {
        ssize_t size = recv(connection->fd, buffer, BUFFER, 0);
        if (size < 0 && errno == EAGAIN) return;
        if (connection->state == SPARE) { if (size <= 0) shut(connection); return; } /* closed between two requests */
        if (size <= 0) {
            bool whole = size == 0 && connection->part == UNTIL_CLOSE;
            shut(connection);
            finish(connection, whole && connection->right);
            return;
        }
        take(connection, buffer, (size_t)size);
        if (connection->part == WHOLE) { finish(connection, connection->right); return; }
        if (size < BUFFER) return; /* edge-triggered: what comes later makes another edge */
    }
}

static void on_event(struct connection *connection, uint32_t events) {
    if (connection->fd < 0) return; /* closed by an event before this one */
    if (connection->state == CONNECTING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        int error = 0;
        socklen_t length = sizeof error;
        getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error) { shut(connection); finish(connection, false); return; }
        connection->state = SENDING;
    }
    if (connection->state == SENDING && (events & EPOLLOUT)) transmit(connection);
    if (connection->fd >= 0 && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))) receive(connection);
}

/* Rates. */

static uint64_t due(const struct load *load, uint64_t number) { return started + (uint64_t)(load->interval * (double)number); }

/* Sends what should have been sent by now, as far as connections are free; returns when the next one is due. */
static uint64_t keep_pace(struct load *load, uint64_t at) {
    while (due(load, load->issued) <= at) {
        struct connection *connection = load->spare;
        if (!connection) return UINT64_MAX; /* one that becomes free is an event */
        load->spare = connection->next;
        begin(connection, due(load, load->issued++));
    }
    return due(load, load->issued);
}

static void turn(uint64_t until) {
    struct epoll_event events[EVENTS];
    uint64_t at = now(), next = until;
    for (int i = 0; i < load_count; i++) {
        if (loads[i].kind == CLOSED || loads[i].kind == EVERY || first_round) continue;
        uint64_t wanted = keep_pace(&loads[i], at);
        if (wanted < next) next = wanted;
    }
    at = now();
    uint64_t wait = next > at ? next - at : 0;
    struct timespec timeout = {.tv_sec = (time_t)(wait / SECOND), .tv_nsec = (long)(wait % SECOND)};
    int count = (int)syscall(SYS_epoll_pwait2, epoll, events, EVENTS, &timeout, NULL, (size_t)0);
    if (count < 0 && errno != EINTR) die("load: epoll_pwait2");
    for (int i = 0; i < count; i++) on_event(events[i].data.ptr, events[i].events);
}

static void open_load(struct load *load) {
    load->all = calloc((size_t)load->connections, sizeof *load->all);
    if (!load->all) die("load: calloc");
    for (int i = load->connections - 1; i >= 0; i--) {
        load->all[i].load = load;
        load->all[i].fd = -1;
        set_aside(&load->all[i]);
    }
}

static void begin_all(void) {
    for (int i = 0; i < load_count; i++) {
        if (loads[i].kind != CLOSED) continue;
        struct connection *connection = loads[i].spare;
        loads[i].spare = NULL;
        while (connection) {
            struct connection *next = connection->next;
            begin(connection, now());
            connection = next;
        }
    }
}

/* Every connection of the first load is used once; then the program waits for the counting process. */
static void introduce(void) {
    char line[16];
    first_round = true;
    begin_all();
    while (answered < (uint64_t)loads[0].connections && now() < ends_at) turn(ends_at);
    first_round = false;
    begun = answered = 0;
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(1);
}

/* What was not answered by the end has waited at least until then. */
static uint64_t note_unanswered(struct load *load, uint64_t at) {
    uint64_t late = 0;
    if (load->kind == PACED || load->kind == FRESH)
        for (; due(load, load->issued) < at; load->issued++, late++) note(&load->times, at - due(load, load->issued));
    for (int i = 0; i < load->connections; i++) {
        struct connection *connection = &load->all[i];
        if (connection->state == SPARE || connection->since < counts_from) continue;
        if (load->kind != CLOSED) note(&load->times, at - connection->since);
        late++;
    }
    return late;
}

static void tell(double cpu) {
    uint64_t at = now();
    printf("{\"seconds\":%.6f,\"cpu\":%.6f,\"loads\":[", (double)(at - counts_from) / 1e9, cpu);
    for (int i = 0; i < load_count; i++) {
        struct load *load = &loads[i];
        uint64_t late = note_unanswered(load, at);
        printf("%s{\"kind\":\"%s\",\"answers\":%llu,\"errors\":%llu,\"unanswered\":%llu,\"p50\":%.9f,\"p99\":%.9f,\"longest\":%.9f}",
               i ? "," : "", kinds[load->kind], (unsigned long long)load->answers, (unsigned long long)load->errors,
               (unsigned long long)late, percentile(&load->times, 0.5), percentile(&load->times, 0.99), (double)load->times.longest / 1e9);
    }
    printf("]}\n");
}

static enum kind kind_named(const char *name) {
    for (int i = 0; i <= EVERY; i++)
        if (strcmp(name, kinds[i]) == 0) return (enum kind)i;
    fprintf(stderr, "load: there is no kind of load called %s\n", name);
    exit(2);
}

static uint64_t nanoseconds(const char *seconds) { return (uint64_t)(atof(seconds) * 1e9); }

int main(int argc, char **argv) {
    if (argc < 9 || (argc - 5) % 4 || (argc - 5) / 4 > LOADS) {
        fprintf(stderr, "usage: load PORT WARM SECONDS LIMIT KIND CONNECTIONS RATE REQUEST ...\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* a paced request goes out when it is due, not 50 us later */
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if ((epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) die("load: epoll_create1");
    limit = strtoull(argv[4], NULL, 10);
    for (int i = 5; i < argc; i += 4) {
        struct load *load = &loads[load_count++];
        load->kind = kind_named(argv[i]);
        load->connections = atoi(argv[i + 1]);
        load->interval = atof(argv[i + 2]) > 0 ? 1e9 / atof(argv[i + 2]) : 1e18;
        load->request = argv[i + 3];
        load->length = strlen(load->request);
        open_load(load);
        if (load->kind != EVERY) continue;
        if (load == loads || load[-1].kind != CLOSED || (load->every = strtoull(argv[i + 2], NULL, 10)) == 0) {
            fprintf(stderr, "load: \"every\" comes after a closed load, with a number from 1 on\n");
            return 2;
        }
        load[-1].instead = load;
    }
    started = counts_from = now();
    ends_at = started + nanoseconds(argv[3]);
    if (limit) introduce();
    started = now();
    counts_from = started + nanoseconds(argv[2]);
    ends_at = counts_from + nanoseconds(argv[3]);
    begin_all();
    while (now() < counts_from) turn(counts_from);
    double cpu = processor_seconds();
    while (now() < ends_at && (!limit || answered < limit)) turn(ends_at);
    tell(processor_seconds() - cpu);
    return 0;
}
