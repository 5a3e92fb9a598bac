/*
 * Balance: which of several processes accepts the next client. They all accept from the same sockets, so the first one
 * that wakes would take a whole burst, and connections that are kept open would stay there.
 *
 * Each process writes down how many connections it has, in memory that all of them share. A process that has more than
 * the others leaves clients to them (listener.c).
 *
 * SO_REUSEPORT, with a socket for each process, has no such memory, but unix sockets and inherited ones do not have it,
 * and a process that ends would lose the clients in its backlog.
 */
#include "transport.h"
#include <sys/mman.h>

#define ENTRIES 2048         /* twice as many as workers at most: a worker and its successor have one each */
#define SLACK 2              /* connections that a process may have above the least of the others; … */
#define SLACK_SHARE 8        /* … and one more for each so many of those: large numbers need not be equal */

enum { FREE = UINT32_MAX, NONE = FREE - 1 }; /* NONE: its process accepts nothing now */

struct nb_balance {
    atomic_uint used;        /* entries from here on have never been used */
    struct { _Alignas(64) atomic_uint connections; } entries[ENTRIES]; /* each in a line of the cache of its own */
};

nb_balance_t *nb_balance_new(void) {
    void *memory = mmap(NULL, sizeof(nb_balance_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void nb_balance_free(nb_balance_t *balance) {
    if (balance) munmap(balance, sizeof *balance);
}

int nb_balance_enter(nb_balance_t *balance) {
    unsigned used = atomic_load(&balance->used), entry = 0;
    while (entry < used && atomic_load(&balance->entries[entry].connections) != FREE) entry++;
    if (entry == ENTRIES) return NB_NO_ENTRY;
    atomic_store(&balance->entries[entry].connections, NONE);
    if (entry == used) atomic_store(&balance->used, used + 1);
    return (int)entry;
}

void nb_balance_leave(nb_balance_t *balance, int entry) {
    if (entry >= 0 && entry < ENTRIES) atomic_store(&balance->entries[entry].connections, FREE);
}

void nb_balance_tell(nb_transport_t *transport) {
    if (!transport->balance || transport->balance_entry == NB_NO_ENTRY) return;
    bool accepts = !transport->paused && !transport->standing_back && !nb_list_empty(&transport->listeners);
    unsigned value = accepts ? (unsigned)transport->connection_count : NONE;
    atomic_store_explicit(&transport->balance->entries[transport->balance_entry].connections, value,
                          memory_order_relaxed);
}

bool nb_balance_permits(const nb_transport_t *transport) {
    nb_balance_t *balance = transport->balance;
    if (!balance) return true;
    unsigned used = atomic_load_explicit(&balance->used, memory_order_relaxed), least = NONE;
    for (unsigned i = 0; i < used; i++) {
        unsigned count = atomic_load_explicit(&balance->entries[i].connections, memory_order_relaxed);
        if ((int)i != transport->balance_entry && count < least) least = count;
    }
    return least == NONE || transport->connection_count < (size_t)least + SLACK + least / SLACK_SHARE;
}
