/*
 * Connections per address (max_connections_per_address): one client must not take all of max_connections. An IPv6
 * client is counted by its network of 64 bits. Trusted proxies, and peers of a unix socket, stand for many clients and
 * are not limited; behind a PROXY header the address that it names is counted.
 */
#include "transport.h"
#include <ruby/st.h>
#include <string.h>

typedef struct nb_address_count { uint8_t network[16]; size_t connections; } count_t;

static int compare(st_data_t a, st_data_t b) { return memcmp((const void *)a, (const void *)b, 16); }

static st_index_t hash(st_data_t network) { return st_hash((const void *)network, 16, 0); }

static const struct st_hash_type by_network = {compare, hash};

static count_t *count_of(nb_transport_t *transport, const uint8_t address[16]) {
    count_t wanted = {.connections = 0};
    st_data_t found;
    memcpy(wanted.network, address, memcmp(address, nb_loopback, 12) == 0 ? 16 : 8); /* the former: IPv4, as mapped */
    if (!transport->address_counts) transport->address_counts = st_init_table(&by_network);
    if (st_lookup(transport->address_counts, (st_data_t)wanted.network, &found)) return (count_t *)found;
    count_t *count = ALLOC(count_t);
    *count = wanted;
    st_insert(transport->address_counts, (st_data_t)count->network, (st_data_t)count);
    return count;
}

bool nb_address_limit_acquire(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    unsigned most = transport->settings.max_connections_per_address;
    if (!most || connection->awaits_proxy || (connection->local && !connection->has_proxy_header)) return true;
    const uint8_t *address = nb_connection_address(connection);
    if (!address) return true; /* it has left: nothing will be done for it */
    if (nb_trusts(&transport->settings.trusted, address)) return true;
    count_t *count = count_of(transport, address);
    if (count->connections >= most) {
        nb_hijacked_look_again(transport); /* it may free the count */
        count = count_of(transport, address);
    }
    if (count->connections >= most) {
        char text[NB_ADDRESS_TEXT];
        nb_address_text(text, address);
        transport->refused_address++;
        nb_transport_report(transport, "address",
                            "a connection from %s is closed: %u of that address are open "
                            "(max_connections_per_address)", text, most);
        return false;
    }
    count->connections++;
    connection->address_count = count;
    return true;
}

void nb_address_limit_release(nb_transport_t *transport, count_t *count) {
    if (!count || --count->connections) return;
    st_data_t network = (st_data_t)count->network;
    st_delete(transport->address_counts, &network, NULL);
    xfree(count);
}

static int free_count(st_data_t network, st_data_t count, st_data_t nothing) {
    xfree((count_t *)count);
    return ST_CONTINUE;
}

void nb_address_limit_free(nb_transport_t *transport) {
    if (!transport->address_counts) return;
    st_foreach(transport->address_counts, free_count, 0);
    st_free_table(transport->address_counts);
}
