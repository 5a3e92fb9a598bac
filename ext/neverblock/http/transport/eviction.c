/*
 * Room for a new connection when max_connections are open: the longest idle connection is closed, as RFC 9112 §9.5
 * allows at any time. So is one that lingers after its last response. Otherwise they would lock out new clients for
 * idle_timeout or linger_timeout.
 *
 * A server for probes (`yields`) closes any connection, the oldest first: no client may keep probes waiting.
 */
#include "transport.h"

/* Whether its request has arrived and is not read yet. */
static bool has_asked(nb_connection_t *connection) {
    char byte;
    return recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void nb_connection_evict(nb_connection_t *connection) {
    connection->transport->evicted++;
    nb_connection_close(connection);
}

/* The client does not take its response: the request is cancelled, and its fiber closes the connection. */
static void give_up(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    nb_exchange_t *exchange = connection->exchange;
    if (!exchange || connection->close_mode >= NB_CLOSE_AT_ONCE || !transport->hooks->break_off(exchange)) return;
    nb_connection_close_by(connection, NB_CLOSE_AT_ONCE);
    transport->evicted++;
}

nb_connection_t *nb_eviction_candidate(nb_transport_t *transport) {
    for (nb_link_t *l = transport->idlers.next; l != &transport->idlers; l = l->next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, idles);
        if (connection->sending) continue; /* the end of its response would be lost */
        if (connection->state == NB_CONNECTION_LINGER || !has_asked(connection)) return connection;
    }
    if (!transport->settings.yields) return NULL;
    for (nb_link_t *l = transport->connections.next; l != &transport->connections; l = l->next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, link);
        if (connection->state != NB_CONNECTION_BUSY) return connection;
        give_up(connection);
    }
    return NULL;
}
