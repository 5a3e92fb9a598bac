/*
 * The transport as a whole: what is set up once, looked after once a second, and freed at the end.
 */
#include "transport.h"
#include <stdarg.h>
#include <unistd.h>

static void ticked(nb_engine_t *engine, nb_timer_t *timer) {
    nb_transport_t *transport = NB_ENTRY(timer, nb_transport_t, tick);
    uint64_t now = nb_now();
    bool again = transport->hooks->tick(transport, now);
    nb_sends_expire(transport, now);
    nb_hijacked_look(transport);
    if (transport->paused && !transport->draining && !nb_transport_is_full(transport))
        nb_listeners_pause(transport, false);
    bool has_any = transport->connection_count || transport->hijacked_count;
    if (again || has_any || transport->paused) nb_transport_tick_soon(transport);
}

void nb_transport_tick_soon(nb_transport_t *transport) {
    if (transport->tick.index || transport->closed) return;
    transport->tick.deadline = nb_now() + NB_SECOND;
    nb_timer_arm(transport->engine, &transport->tick);
}

void nb_transport_report(nb_transport_t *transport, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    VALUE message = rb_vsprintf(format, arguments);
    va_end(arguments);
    transport->hooks->report(transport, name, message);
}

void nb_transport_init(nb_transport_t *transport, VALUE self, const nb_transport_hooks_t *hooks) {
    transport->self = self;
    transport->hooks = hooks;
    transport->tick.fire = ticked;
    transport->patience.fire = nb_listeners_patience_ended;
    transport->late_accepts = 1;
    transport->balance_entry = NB_NO_ENTRY;
    nb_list_init(&transport->connections);
    nb_list_init(&transport->idlers);
    nb_list_init(&transport->listeners);
    nb_list_init(&transport->sending);
}

void nb_transport_open(nb_transport_t *transport, nb_engine_t *engine) {
    transport->scratch = ALLOC_N(char, NB_SCRATCH);
    transport->engine = engine;
}

void nb_transport_mark(nb_transport_t *transport) {
    if (!transport->listeners.next) return;
    for (nb_link_t *l = transport->listeners.next; l != &transport->listeners; l = l->next)
        rb_gc_mark(NB_ENTRY(l, nb_listener_t, link)->io);
}

void nb_transport_free(nb_transport_t *transport) {
    while (transport->connections.next && !transport->closed && !nb_list_empty(&transport->connections)) {
        nb_connection_t *connection = NB_ENTRY(transport->connections.next, nb_connection_t, link);
        nb_list_remove(&connection->link);
        close(connection->watch.fd);
        xfree(connection->in_memory);
        xfree(connection->behind.bytes);
        xfree(connection);
    }
    while (transport->output_count) xfree(transport->outputs[--transport->output_count].bytes);
    while (transport->accepted_count) close(transport->accepted[--transport->accepted_count].fd);
    xfree(transport->accepted);
    xfree(transport->hijacked);
    nb_address_limit_free(transport);
    xfree(transport->settings.trusted.networks);
    xfree(transport->scratch);
}
