/*
 * Connections that an app has taken over (rack.hijack), such as Action Cable's. The app closes them, and no call tells
 * of it. But each has a descriptor, so each counts for max_connections and max_connections_per_address until its
 * descriptor is closed, or is another file's. The server looks once a second, for each report of its counters, and some
 * times a second when a limit seems to be reached.
 */
#include "transport.h"
#include <sys/stat.h>

#define SOON (NB_SECOND / 10) /* after a look, before the next one for a client that waits */

struct nb_hijacked {
    int fd;
    dev_t device;
    ino_t inode;
    struct nb_address_count *address_count;
};

void nb_hijacked_add(nb_transport_t *transport, int fd, struct nb_address_count *address_count) {
    struct stat about = {0};
    fstat(fd, &about);
    if (transport->hijacked_count == transport->hijacked_capacity) {
        size_t capacity = transport->hijacked_capacity ? transport->hijacked_capacity * 2 : 16;
        REALLOC_N(transport->hijacked, nb_hijacked_t, capacity);
        transport->hijacked_capacity = capacity;
    }
    transport->hijacked[transport->hijacked_count++] = (nb_hijacked_t){fd, about.st_dev, about.st_ino, address_count};
    nb_transport_tick_soon(transport);
}

static bool is_open(const nb_hijacked_t *one) {
    struct stat about;
    return fstat(one->fd, &about) == 0 && about.st_dev == one->device && about.st_ino == one->inode;
}

size_t nb_hijacked_look(nb_transport_t *transport) {
    size_t open = 0;
    for (size_t i = 0; i < transport->hijacked_count; i++) {
        nb_hijacked_t *one = &transport->hijacked[i];
        if (is_open(one)) transport->hijacked[open++] = *one;
        else nb_address_limit_release(transport, one->address_count);
    }
    transport->hijacked_looked = nb_now();
    return transport->hijacked_count = open;
}

void nb_hijacked_look_again(nb_transport_t *transport) {
    if (transport->hijacked_count && nb_now() - transport->hijacked_looked >= SOON) nb_hijacked_look(transport);
}

bool nb_transport_is_full(nb_transport_t *transport) {
    size_t most = transport->settings.max_connections;
    if (transport->connection_count + transport->hijacked_count < most) return false;
    nb_hijacked_look_again(transport);
    return transport->connection_count + transport->hijacked_count >= most;
}
