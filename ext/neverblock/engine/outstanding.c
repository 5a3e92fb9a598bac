/*
 * What is outstanding: what but the loop's own fibers and timers could end one of its waits? Asked under a virtual
 * clock only, before it jumps, so it may be slow.
 *
 * A descriptor is OWN if this process holds the other end as well, or it is a listener; SENDING if bytes are on their
 * way from our other end. All others are FOREIGN: those that lead to other processes, pidfds, terminals, unknown ones.
 */
#include "internal.h"
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <ruby/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/magic.h>
#include <linux/sockios.h>
#include <sys/vfs.h>
#endif

typedef enum { OWN = NB_NOTHING, FOREIGN = NB_FOREIGN, SENDING = NB_SENDING } kind_t;
/* A descriptor of this process, and what it is if it is a socket. */
typedef struct { int fd; bool connected, listens; struct sockaddr_storage own, peer; } descriptor_t;
typedef struct { descriptor_t *list; int count, capacity; } descriptors_t;

/* ---- sockets ---- */
static int option(int fd, int name) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &length) < 0 ? 0 : value;
}

static void look_at_socket(descriptor_t *socket) {
    socklen_t own = sizeof socket->own, peer = sizeof socket->peer;
    if (getsockname(socket->fd, (struct sockaddr *)&socket->own, &own) < 0) return;
    socket->connected = getpeername(socket->fd, (struct sockaddr *)&socket->peer, &peer) == 0;
    socket->listens = !socket->connected && option(socket->fd, SO_ACCEPTCONN) != 0;
}

/* ---- the descriptors of this process ---- */

static void list_descriptors(descriptors_t *all) {
    DIR *folder = opendir("/dev/fd"); /* Linux, macOS and the BSDs have it */
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(folder)) continue;
        if (all->count == all->capacity) {
            int capacity = all->capacity ? all->capacity * 2 : 64;
            descriptor_t *grown = realloc(all->list, capacity * sizeof *grown);
            if (!grown) break;
            all->list = grown;
            all->capacity = capacity;
        }
        all->list[all->count] = (descriptor_t){.fd = fd};
        look_at_socket(&all->list[all->count++]);
    }
    closedir(folder);
}

/* One that has ended, and was not reaped, has no descriptors. */
static bool lives(int pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'R'; /* a name with a parenthesis */
    fclose(file);
    return state != 'Z' && state != 'X';
}

/* Of one of our threads. Without the kernel's list, which is an option, some child may live. */
static bool has_living_child(const char *thread) {
    char path[64];
    int pid = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
    FILE *file = fopen(path, "re");
    if (!file) return true;
    while (!found && fscanf(file, "%d", &pid) == 1) found = lives(pid);
    fclose(file);
    return found;
}

static bool has_children(void) {
    siginfo_t information = {0};
    if (waitid(P_ALL, 0, &information, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
    if (information.si_pid == 0) return true;
    DIR *threads = opendir("/proc/self/task");
    if (!threads) return true;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(threads));)
        found = entry->d_name[0] != '.' && has_living_child(entry->d_name);
    closedir(threads);
    return found;
}

/* The address and port; the scope and the flow of IPv6 may differ between the two ends. */
static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
    if (a->ss_family != b->ss_family) return false;
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    if (a->ss_family == AF_INET) return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a6->sin6_port == b6->sin6_port && memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

/* Of a listener on all addresses only the port can be compared. */
static bool listens_at(const descriptor_t *socket, const struct sockaddr_storage *address) {
    sa_family_t family = socket->own.ss_family;
    return socket->listens && (family == AF_INET || family == AF_INET6) &&
           ((const struct sockaddr_in *)&socket->own)->sin_port == ((const struct sockaddr_in *)address)->sin_port;
}

static bool is_ready(int fd, short events) {
    struct pollfd entry = {.fd = fd, .events = events};
    return poll(&entry, 1, 0) == 1;
}

/* Whether bytes that it wrote have not arrived at the other end yet. */
static bool is_sending(int fd) {
#ifdef SIOCOUTQ
    int unacknowledged = 0;
    return ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > 0;
#else
    (void)fd;
    return false;
#endif
}

/* Whether bytes that it wrote are on their way, and may soon make room for more. Others wait for the reader. */
static bool has_bytes_under_way(int fd) {
#if defined(SIOCOUTQ) && defined(SIOCOUTQNSD)
    int unacknowledged = 0, unsent = 0;
    return ioctl(fd, SIOCOUTQNSD, &unsent) == 0 && ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > unsent;
#else
    (void)fd;
    return false;
#endif
}

/* The other end is a socket of ours, or waits in the queue of a listener of ours, which is readable then. */
static kind_t kind_of_tcp(const descriptor_t *socket, short events, const descriptors_t *all) {
    kind_t queued = FOREIGN;
    if (events & RUBY_IO_WRITABLE && has_bytes_under_way(socket->fd)) return SENDING;
    if (nb_has_forked && has_children()) return FOREIGN; /* a child may hold the other end as well */
    for (int i = 0; i < all->count; i++) {
        const descriptor_t *other = &all->list[i];
        if (listens_at(other, &socket->peer)) queued = is_ready(other->fd, POLLIN) ? OWN : SENDING;
        if (!other->connected || other->fd == socket->fd) continue;
        if (same_address(&other->own, &socket->peer) && same_address(&other->peer, &socket->own))
            return events & RUBY_IO_READABLE && is_sending(other->fd) ? SENDING : OWN;
    }
    return queued;
}

/* The process that connected, or made the pair. */
static bool is_own_unix(int fd) {
#ifdef SO_PEERCRED
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid();
#elif defined(LOCAL_PEERPID)
    pid_t peer = 0;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &peer, &length) == 0 && peer == getpid();
#else
    return false;
#endif
}

static kind_t kind_of_socket(int fd, short events, const descriptors_t *all) {
    descriptor_t socket = {.fd = fd};
    look_at_socket(&socket);
    if (socket.listens) return OWN;
    if (!socket.connected) return FOREIGN;
    sa_family_t family = socket.own.ss_family;
    if (family == AF_INET || family == AF_INET6) return kind_of_tcp(&socket, events, all);
    return family == AF_UNIX && is_own_unix(fd) && !has_children() ? OWN : FOREIGN; /* a child may hold the other end */
}

/* ---- pipes ---- */
/* Any process may have opened one that has a name. */
static bool has_name(int fd) {
#ifdef PIPEFS_MAGIC
    struct statfs system;
    return fstatfs(fd, &system) < 0 || system.f_type != PIPEFS_MAGIC;
#else
    (void)fd;
    return false;
#endif
}

static bool is_own_pipe(int fd, const struct stat *status, short events, const descriptors_t *all) {
    bool reads = events & RUBY_IO_READABLE;
    if (has_children() || has_name(fd)) return false;
    for (int i = 0; i < all->count; i++) {
        struct stat other;
        if (fstat(all->list[i].fd, &other) < 0) continue;
        if (other.st_ino != status->st_ino || other.st_dev != status->st_dev) continue;
        int mode = fcntl(all->list[i].fd, F_GETFL) & O_ACCMODE;
        if (mode == (reads ? O_WRONLY : O_RDONLY)) return true;
    }
    return false;
}

static kind_t kind_of(int fd, short events, const descriptors_t *all) {
    struct stat status;
    if (fstat(fd, &status) < 0) return FOREIGN;
    if (S_ISSOCK(status.st_mode)) return kind_of_socket(fd, events, all);
    return S_ISFIFO(status.st_mode) && is_own_pipe(fd, &status, events, all) ? OWN : FOREIGN;
}

static kind_t kind_of_operation(const nb_operation_t *operation, const descriptors_t *all) {
    switch (operation->kind) {
    case NB_ACCEPT: return OWN;
    case NB_RECEIVE: return kind_of(operation->fd, RUBY_IO_READABLE, all);
    default: /* a send into a full socket waits for its reader */
        return is_ready(operation->fd, POLLOUT) ? SENDING : kind_of(operation->fd, RUBY_IO_WRITABLE, all);
    }
}

typedef struct { kind_t kind; int fd; } found_t;

static void note(found_t *worst, kind_t kind, int fd) {
    if (kind > worst->kind) *worst = (found_t){kind, fd};
}

/* The most of all descriptors that the loop waits for. */
static found_t worst_descriptor(nb_engine_t *engine) {
    descriptors_t all = {0};
    found_t worst = {nb_list_empty(&engine->abandoned) ? OWN : SENDING, -1};
    list_descriptors(&all);
    for (int fd = 0; fd < engine->descriptor_count; fd++) {
        short events = nb_descriptor_wanted(engine, fd);
        if (events) note(&worst, kind_of(fd, events, &all), fd);
    }
    for (nb_link_t *l = engine->operations.next; l != &engine->operations; l = l->next) {
        const nb_operation_t *operation = NB_ENTRY(l, nb_operation_t, link);
        note(&worst, kind_of_operation(operation, &all), operation->fd);
    }
    free(all.list);
    return worst;
}

nb_obstacle_t nb_outstanding(nb_engine_t *engine, bool foreign) {
    if (engine->job_count) return (nb_obstacle_t){NB_JOBS, -1};
    if (!nb_mailbox_empty(engine->mailbox)) return (nb_obstacle_t){NB_TASKS, -1};
    if (engine->hooks->threads_outstanding(engine)) /* first: they may have written to descriptors */
        return (nb_obstacle_t){NB_THREADS, -1};
    bool descriptors = engine->interest_count || engine->watch_count || engine->operation_count;
    found_t worst = descriptors ? worst_descriptor(engine) : (found_t){OWN, -1};
    if (worst.kind == FOREIGN && !foreign) return (nb_obstacle_t){NB_NOTHING, -1};
    return (nb_obstacle_t){(nb_obstacle_kind_t)worst.kind, worst.fd};
}
