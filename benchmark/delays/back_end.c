/*
 * The back end of the delays benchmark: answers every HTTP request after the
 * milliseconds its path names. One process, one epoll loop, a few microseconds a
 * request, so that it is never what is measured.
 *
 *   cc -O2 back_end.c -o back_end && ./back_end        # prints its port
 *   curl http://127.0.0.1:PORT/500?client=0            # "ok" half a second later
 *   curl http://127.0.0.1:PORT/watch?pid=4711,4712     # forget what was counted; watch these clients
 *   curl http://127.0.0.1:PORT/stats                   # what was counted, as JSON
 *
 * For each request it notes how much processor time its client (the pid given to
 * /watch, at the place the request names) had used by then: the figure for the last
 * request tells when the client had sent everything. It ends when its standard
 * input does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_SIZE = 4096, CLIENTS = 8, EVENTS = 512, DELAYS = 64 };

struct connection {
    int fd;
    size_t length;
    char request[REQUEST_SIZE];
    uint64_t due;
    bool keep_alive, waiting, watched;
    struct connection *next; /* in its queue, or among the spare ones */
};

/* All connections that wait equally long, the one due first at the head. */
struct queue {
    uint64_t delay;
    struct connection *head, *tail;
};

static struct queue queues[DELAYS];
static int queue_count;
static struct connection *spare;
static int epoll;
static pid_t clients[CLIENTS];

static struct {
    uint64_t requests, open, most_open, busy_at_watch;
    uint64_t last_received;         /* CLOCK_MONOTONIC, ns */
    uint64_t client_cpu[CLIENTS];   /* ns, when its latest request was read */
} counted;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t nanoseconds(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t processor_time_of(pid_t pid) {
    clockid_t clock;
    return pid > 0 && clock_getcpuclockid(pid, &clock) == 0 ? nanoseconds(clock) : 0;
}

static void drop(struct connection *connection) {
    close(connection->fd);
    connection->next = spare;
    spare = connection;
    counted.open--;
}

/* Edge-triggered: a client that hangs up early must not keep the loop busy while its answer is due. */
static void watch_for_input(struct connection *connection) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = connection};
    if (connection->watched) return;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0) die("back end: epoll_ctl");
    connection->watched = true;
}

/* Whether the connection is still there. The socket buffer of a new connection always has room for these few bytes. */
static bool send_all(struct connection *connection, const char *bytes, int length) {
    bool sent = send(connection->fd, bytes, (size_t)length, MSG_NOSIGNAL) == length;
    connection->length = 0;
    if (sent && connection->keep_alive) {
        watch_for_input(connection); /* an edge is reported even if the next request is there already */
        return true;
    }
    drop(connection);
    return false;
}

static bool answer(struct connection *connection, const char *body) {
    char response[1024];
    int length = snprintf(response, sizeof response,
                          "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: %s\r\n\r\n%s",
                          strlen(body), connection->keep_alive ? "keep-alive" : "close", body);
    return send_all(connection, response, length);
}

static void delay(struct connection *connection, uint64_t wanted) {
    struct queue *queue = NULL;
    for (int i = 0; i < queue_count && !queue; i++)
        if (queues[i].delay == wanted) queue = &queues[i];
    if (!queue) {
        if (queue_count == DELAYS) { drop(connection); return; }
        queue = &queues[queue_count++];
        queue->delay = wanted;
    }
    connection->due = nanoseconds(CLOCK_MONOTONIC) + wanted;
    connection->waiting = true;
    connection->next = NULL;
    if (queue->head) queue->tail->next = connection; else queue->head = connection;
    queue->tail = connection;
}

static void watch(const char *list) {
    memset(clients, 0, sizeof clients);
    for (int i = 0; i < CLIENTS && list && *list; i++) {
        clients[i] = (pid_t)strtol(list, (char **)&list, 10);
        if (*list == ',') list++; else list = NULL;
    }
    uint64_t open = counted.open;
    memset(&counted, 0, sizeof counted);
    counted.open = counted.most_open = open;
    counted.busy_at_watch = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
}

static void tell(struct connection *connection) {
    char body[768];
    int length = snprintf(body, sizeof body, "{\"requests\":%llu,\"most_open\":%llu,\"cpu\":%llu,\"last_received\":%llu,\"client_cpu\":[",
                          (unsigned long long)counted.requests, (unsigned long long)counted.most_open,
                          (unsigned long long)(nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - counted.busy_at_watch),
                          (unsigned long long)counted.last_received);
    for (int i = 0; i < CLIENTS; i++)
        length += snprintf(body + length, sizeof body - (size_t)length, "%s%llu", i ? "," : "",
                           (unsigned long long)counted.client_cpu[i]);
    snprintf(body + length, sizeof body - (size_t)length, "]}");
    answer(connection, body);
}

static void serve(struct connection *connection) {
    char *path = strchr(connection->request, ' ');
    connection->keep_alive = !strcasestr(connection->request, "\r\nconnection: close\r\n");
    if (!path || path[1] != '/') { drop(connection); return; }
    path += 2;
    if (strncmp(path, "watch", 5) == 0) {
        watch(strncmp(path, "watch?pid=", 10) == 0 ? path + 10 : NULL);
        answer(connection, "ok");
    } else if (strncmp(path, "stats", 5) == 0) {
        tell(connection);
    } else {
        char *rest;
        uint64_t wanted = strtoull(path, &rest, 10) * 1000000u;
        int client = strncmp(rest, "?client=", 8) == 0 ? atoi(rest + 8) : 0;
        counted.requests++;
        counted.last_received = nanoseconds(CLOCK_MONOTONIC);
        if (client >= 0 && client < CLIENTS) counted.client_cpu[client] = processor_time_of(clients[client]);
        if (wanted == 0) answer(connection, "ok"); else delay(connection, wanted);
    }
}

static void receive(struct connection *connection) {
    if (connection->waiting) return; /* read once it is answered */
    size_t room = REQUEST_SIZE - 1 - connection->length;
    ssize_t size = recv(connection->fd, connection->request + connection->length, room, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) { watch_for_input(connection); return; }
    if (size <= 0) { drop(connection); return; }
    connection->length += (size_t)size;
    connection->request[connection->length] = '\0';
    if (strstr(connection->request, "\r\n\r\n"))
        serve(connection);
    else if (connection->length == REQUEST_SIZE - 1)
        drop(connection);
    else
        watch_for_input(connection);
}

static void accept_all(int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
            die("back end: accept");
        }
        struct connection *connection = spare;
        if (connection) spare = connection->next;
        else if (!(connection = malloc(sizeof *connection))) die("back end: malloc");
        connection->fd = fd;
        connection->length = 0;
        connection->waiting = connection->watched = false;
        if (++counted.open > counted.most_open) counted.most_open = counted.open;
        receive(connection);
    }
}

/* Answers what is due; returns the milliseconds until the next one, -1 where nothing waits. */
static int answer_due(void) {
    uint64_t now = nanoseconds(CLOCK_MONOTONIC), next = UINT64_MAX;
    for (int i = 0; i < queue_count; i++) {
        struct queue *queue = &queues[i];
        while (queue->head && queue->head->due <= now) {
            struct connection *connection = queue->head;
            queue->head = connection->next;
            connection->waiting = false;
            if (answer(connection, "ok")) receive(connection);
        }
        if (queue->head && queue->head->due < next) next = queue->head->due;
    }
    return next == UINT64_MAX ? -1 : (int)((next - now + 999999u) / 1000000u);
}

static int listen_on_loopback(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 65535) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        die("back end: listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void use_all_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(void) {
    static char listener_mark, input_mark;
    struct epoll_event events[EVENTS];
    signal(SIGPIPE, SIG_IGN);
    use_all_descriptors();
    int listener = listen_on_loopback();
    if ((epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) die("back end: epoll_create1");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listener_mark};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0) die("back end: epoll_ctl");
    event.data.ptr = &input_mark;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0) die("back end: standard input must be a pipe");
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, answer_due());
        if (count < 0 && errno != EINTR) die("back end: epoll_wait");
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &input_mark) return 0;
            if (events[i].data.ptr == &listener_mark) accept_all(listener);
            else receive(events[i].data.ptr);
        }
    }
}
