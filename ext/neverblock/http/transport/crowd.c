/*
 * Who makes room when max_connections are open and one more comes: the connection that has asked nothing for longest,
 * which RFC 9112 §9.5 lets us close at any time; one that has had its last answer, and that we only wait for, too. Else
 * they would lock everybody out for idle_timeout or linger_timeout.
 *
 * Where the server is for probes (`yields`), no client may keep them waiting, whatever it does: any connection goes, the
 * oldest first.
 */
#include "../http.h"

/* Its request is there, and we have not come to it. */
static bool has_asked(nb_connection_t *connection) {
    char byte;
    return recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void nb_crowd_evict(nb_connection_t *connection) {
    connection->core->evicted++;
    nb_connection_close(connection);
}

/* Its answer is not taken: the fiber closes it when it comes to its turn. */
static void give_up(nb_connection_t *connection) {
    nb_request_t *request = connection->request;
    if (!request || !request->started || !request->head_sent || connection->peer_left) return;
    connection->peer_left = connection->doomed = true;
    connection->core->evicted++;
    rb_funcall(request->task, rb_intern("cancel"), 0);
}

nb_connection_t *nb_crowd_first_to_go(nb_core_t *core) {
    for (nb_link_t *l = core->idlers.next; l != &core->idlers; l = l->next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, idles);
        if (connection->sending) continue; /* the end of its answer would be lost */
        if (connection->state == NB_CONNECTION_LINGER || !has_asked(connection)) return connection;
    }
    if (!core->settings.yields) return NULL;
    for (nb_link_t *l = core->connections.next; l != &core->connections; l = l->next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, link);
        if (connection->state != NB_CONNECTION_BUSY) return connection;
        give_up(connection);
    }
    return NULL;
}
