/*
 * A resolver for tests, preloaded before the system's: names below .test get the
 * addresses and delays that an environment variable gives them, all others go on.
 *
 *   NEVERBLOCK_TEST_NAMES="slow.test=500:127.0.0.1,500:::1 dead.test=60000:127.0.0.1"
 *
 * Per name a list of delay in milliseconds, colon, address. A question for one
 * family waits as long as the slowest of its addresses says, or, if there are none
 * of it, as "0:-4" or "0:-6" says and then has no answer. Each question is appended
 * to the file named in NEVERBLOCK_TEST_QUESTIONS as a line "name family".
 * getnameinfo is delayed by NEVERBLOCK_TEST_NAMEINFO milliseconds, unless it is
 * asked for numbers only. Where NEVERBLOCK_TEST_GATE names a file, none of these
 * answers before the file exists (or half a minute has passed).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void
pause_for(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

static void
answer_after(long milliseconds)
{
    const char *gate = getenv("NEVERBLOCK_TEST_GATE");
    int patience = 6000;

    pause_for(milliseconds);
    while (gate && access(gate, F_OK) && patience--) pause_for(5);
}

static void
note(const char *name, int family)
{
    const char *path = getenv("NEVERBLOCK_TEST_QUESTIONS");
    char line[300];
    int fd, length;

    if (!path || (fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600)) < 0) return;
    length = snprintf(line, sizeof(line), "%s %s\n", name,
                      family == AF_INET ? "IPv4" : family == AF_INET6 ? "IPv6" : "any");
    if (write(fd, line, (size_t)length) != length) abort();
    close(fd);
}

/* Finds what the environment says about a name: a copy of "delay:address,...". */
static char *
entry(const char *name)
{
    const char *names = getenv("NEVERBLOCK_TEST_NAMES");
    size_t length = strlen(name);

    while (names && *names) {
        if (!strncmp(names, name, length) && names[length] == '=') {
            const char *value = names + length + 1;
            return strndup(value, strcspn(value, " "));
        }
        names += strcspn(names, " ");
        names += strspn(names, " ");
    }
    return NULL;
}

typedef int getaddrinfo_function(const char *, const char *, const struct addrinfo *, struct addrinfo **);
typedef int getnameinfo_function(const struct sockaddr *, socklen_t, char *, socklen_t, char *, socklen_t, int);

int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
    getaddrinfo_function *real = (getaddrinfo_function *)dlsym(RTLD_NEXT, "getaddrinfo");
    int asked = hints ? hints->ai_family : AF_UNSPEC;
    struct addrinfo *tail = NULL;
    char *list = name ? entry(name) : NULL, *rest = list, *item;
    long delay = 0;

    if (!list) return real(name, service, hints, result);
    note(name, asked);
    *result = NULL;
    while ((item = strsep(&rest, ","))) {
        char *address = strchr(item, ':') + 1;
        int none = address[0] == '-';
        int family = none ? (address[1] == '6' ? AF_INET6 : AF_INET) : strchr(address, ':') ? AF_INET6 : AF_INET;

        if (asked != AF_UNSPEC && asked != family) continue;
        if (atol(item) > delay) delay = atol(item);
        if (!none) {
            struct addrinfo numeric = hints ? *hints : (struct addrinfo){0}, *found;
            numeric.ai_flags = (numeric.ai_flags | AI_NUMERICHOST) & ~AI_ADDRCONFIG;
            if (real(address, service, &numeric, &found)) continue;
            if (tail) tail->ai_next = found; else *result = found;
            for (tail = found; tail->ai_next; tail = tail->ai_next) {}
        }
    }
    free(list);
    answer_after(delay);
    return *result ? 0 : EAI_NONAME;
}

int
getnameinfo(const struct sockaddr *address, socklen_t length, char *host, socklen_t host_size,
            char *service, socklen_t service_size, int flags)
{
    getnameinfo_function *real = (getnameinfo_function *)dlsym(RTLD_NEXT, "getnameinfo");
    const char *delay = getenv("NEVERBLOCK_TEST_NAMEINFO");

    if (delay && !((flags & NI_NUMERICHOST) && (flags & NI_NUMERICSERV))) answer_after(atol(delay));
    return real(address, length, host, host_size, service, service_size, flags);
}
