/*
 * Connections per address (max_connections_per_address): one client must not take all of max_connections. An IPv6
 * client is counted by its network of 64 bits. Trusted proxies, and peers of a unix socket, stand for many clients and
 * are not limited; behind a PROXY header the address that it names is counted.
 */
#include "transport.h"
#include <ruby/st.h>
#include <string.h>

typedef struct nb_guest { uint8_t network[16]; size_t connections; } guest_t;

static int compare(st_data_t a, st_data_t b) { return memcmp((const void *)a, (const void *)b, 16); }

static st_index_t hash(st_data_t network) { return st_hash((const void *)network, 16, 0); }

static const struct st_hash_type by_network = {compare, hash};

static guest_t *guest_of(nb_transport_t *transport, const uint8_t address[16]) {
    guest_t wanted = {.connections = 0};
    st_data_t found;
    memcpy(wanted.network, address, memcmp(address, nb_loopback, 12) == 0 ? 16 : 8); /* the former: IPv4, as mapped */
    if (!transport->guests) transport->guests = st_init_table(&by_network);
    if (st_lookup(transport->guests, (st_data_t)wanted.network, &found)) return (guest_t *)found;
    guest_t *guest = ALLOC(guest_t);
    *guest = wanted;
    st_insert(transport->guests, (st_data_t)guest->network, (st_data_t)guest);
    return guest;
}

bool nb_guest_enter(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    unsigned most = transport->settings.max_connections_per_address;
    if (!most || connection->awaits_proxy || (connection->local && !connection->has_proxy_header)) return true;
    const uint8_t *address = nb_connection_address(connection);
    if (nb_trusts(&transport->settings.trusted, address)) return true;
    guest_t *guest = guest_of(transport, address);
    if (guest->connections >= most) {
        char text[NB_ADDRESS_TEXT];
        nb_address_text(text, address);
        transport->refused_address++;
        nb_transport_report(transport, "address",
                            "a connection from %s is closed: %u of that address are open "
                            "(max_connections_per_address)", text, most);
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
    st_delete(connection->transport->guests, &network, NULL);
    xfree(guest);
}

static int free_guest(st_data_t network, st_data_t guest, st_data_t nothing) {
    xfree((guest_t *)guest);
    return ST_CONTINUE;
}

void nb_guests_free(nb_transport_t *transport) {
    if (!transport->guests) return;
    st_foreach(transport->guests, free_guest, 0);
    st_free_table(transport->guests);
}
