/*
 * How many connections an address has (max_connections_per_address): one client shall not have all of max_connections. Of
 * IPv6 it is the network of 64 bits, which is what one client has. Proxies that are trusted come on behalf of many, and so
 * do those behind a unix socket; a PROXY header tells whom it counts for.
 */
#include "../http.h"
#include <ruby/st.h>
#include <string.h>

typedef struct nb_guest { uint8_t network[16]; size_t connections; } guest_t;

static int compare(st_data_t a, st_data_t b) { return memcmp((const void *)a, (const void *)b, 16); }

static st_index_t hash(st_data_t network) { return st_hash((const void *)network, 16, 0); }

static const struct st_hash_type by_network = {compare, hash};

static guest_t *guest_of(nb_core_t *core, const uint8_t address[16]) {
    guest_t wanted = {.connections = 0};
    st_data_t found;
    memcpy(wanted.network, address, memcmp(address, nb_loopback, 12) == 0 ? 16 : 8); /* the former: IPv4, as mapped */
    if (!core->guests) core->guests = st_init_table(&by_network);
    if (st_lookup(core->guests, (st_data_t)wanted.network, &found)) return (guest_t *)found;
    guest_t *guest = ALLOC(guest_t);
    *guest = wanted;
    st_insert(core->guests, (st_data_t)guest->network, (st_data_t)guest);
    return guest;
}

/* False: it has as many as it may, and this one is to be closed. */
bool nb_guest_enter(nb_connection_t *connection) {
    nb_core_t *core = connection->core;
    unsigned most = core->settings.max_connections_per_address;
    if (!most || connection->awaits_proxy || (connection->local && !connection->introduced)) return true;
    const uint8_t *address = nb_connection_address(connection);
    if (nb_trusts(&core->settings.trusted, address)) return true;
    guest_t *guest = guest_of(core, address);
    if (guest->connections >= most) {
        core->refused_address++;
        nb_core_trouble(core, "address", "a connection from %" PRIsVALUE " is closed: %u of that address are open (max_connections_per_address)",
                        nb_env_remote(connection), most);
        return false;
    }
    guest->connections++;
    connection->guest = guest;
    return true;
}

void nb_guest_leave(nb_connection_t *connection) {
    guest_t *guest = connection->guest;
    connection->guest = NULL;
    if (!guest || --guest->connections) return;
    st_data_t network = (st_data_t)guest->network;
    st_delete(connection->core->guests, &network, NULL);
    xfree(guest);
}

static int free_guest(st_data_t network, st_data_t guest, st_data_t nothing) {
    xfree((guest_t *)guest);
    return ST_CONTINUE;
}

void nb_guests_free(nb_core_t *core) {
    if (!core->guests) return;
    st_foreach(core->guests, free_guest, 0);
    st_free_table(core->guests);
}
