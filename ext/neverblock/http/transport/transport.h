/*
 * The transport: connections, and the bytes that they receive and send, over the engine's watches and operations. It
 * knows the protocol layer and the engine. What it must ask of the layer above is in nb_transport_hooks_t.
 *
 *     transport.c      the whole: opens, ticks once a second, frees
 *     listener.c       accepts
 *     balance.c        spreads clients over the processes that accept from the same sockets
 *     eviction.c       makes room for new connections
 *     address_limit.c  limits the connections of each address
 *     connection.c     opens a connection, keeps its deadline, closes it
 *     receive.c        receives
 *     output.c         gathers and sends bytes for a fiber that waits for it
 *     send.c           sends without waiting
 *     rate.c           measures how fast a client takes a response
 *     hijacked.c       counts the connections that the app has taken over
 *
 * A connection holds no fiber. Its states:
 *
 *     IDLE ──► HEAD ──► BODY ──► BUSY ──► IDLE      next request
 *       │        └───────────────►│ └───► LINGER    the last response is out
 *       └──► closed                         └──► closed
 */
#ifndef NB_HTTP_TRANSPORT_H
#define NB_HTTP_TRANSPORT_H

#include "../../engine/engine.h"
#include "../protocol/address.h"
#include "../protocol/forwarded.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define NB_SCRATCH 65536      /* bytes received at a time, into one buffer for all connections */
#define NB_GATHER 16384       /* output is sent when it has grown to this */
#define NB_KEPT_OUTPUTS 64    /* buffers kept for the next responses */

typedef struct nb_transport nb_transport_t;
typedef struct nb_connection nb_connection_t;
typedef struct nb_balance nb_balance_t;

/* ---- output: bytes on their way to a client ---- */
typedef struct {
    char *bytes;
    size_t length, capacity, sent;
} nb_output_t;

/* ---- rate: how fast a client takes them ---- */
typedef struct {
    uint64_t since, waited;   /* ns: when the wait under way began, or 0; the length of the waits before */
    int64_t before;           /* bytes that had been taken when the first wait began */
    bool measured;
} nb_rate_t;

/* ---- an exchange: what the transport must know of a request and its response ---- */
typedef struct nb_exchange {
    nb_transport_t *transport;
    nb_connection_t *connection; /* NULL once hijacked */
    nb_link_t waits;          /* fibers that wait for the connection, or for their turn to write: output.c */
    nb_output_t out;
    uint64_t sent_bytes;      /* all bytes that the kernel took */
    nb_rate_t rate;
    int failure;              /* errno of a send that had no waiter; ECANCELED: one was broken off */
    bool client_left;
    bool flushing;            /* a fiber waits for the client to take the buffer: leave it untouched */
    bool turn_wanted;         /* … and other fibers wait for their turn */
    bool too_slow;            /* the client takes the response too slowly */
} nb_exchange_t;

/* What the layer above supplies. None of them parks. */
typedef struct {
    void (*bytes)(nb_connection_t *, char *bytes, size_t length); /* received; keeps what it does not consume */
    void (*timed_out)(nb_connection_t *);     /* the deadline of a head or a body has passed */
    void (*client_ended)(nb_exchange_t *);    /* the client sends no more (with cancel_on_disconnect) */
    bool (*break_off)(nb_exchange_t *);       /* cancels it if its response has begun, and tells so */
    void (*stalls)(nb_exchange_t *);          /* a fiber begins to wait for the client to read */
    void (*closed)(nb_exchange_t *);          /* the connection is gone: frees the exchange */
    bool (*tick)(nb_transport_t *, uint64_t now); /* once a second; whether it needs another */
    void (*report)(nb_transport_t *, const char *name, VALUE message); /* for the error log */
} nb_transport_hooks_t;

/* ---- a connection ---- */
typedef enum {
    NB_CONNECTION_IDLE,       /* between requests; the first one too */
    NB_CONNECTION_HEAD,       /* a head has begun */
    NB_CONNECTION_BODY,       /* its body is being collected */
    NB_CONNECTION_BUSY,       /* its request is queued, or is being served */
    NB_CONNECTION_LINGER,     /* all is said: the client gets time to read it */
} nb_connection_state_t;

/* How a connection ends. It goes down this list, and never back: nb_connection_close_by. */
typedef enum {
    NB_KEEP_OPEN,             /* for the next request */
    NB_CLOSE_AFTER_RESPONSE,  /* lingers, so that the client can read it */
    NB_CLOSE_WHEN_SENT,       /* when the bytes on their way are out */
    NB_CLOSE_AT_ONCE,         /* the client has left, or can't be served further */
    NB_CLOSE_RESET,           /* … and is to see that the response was broken off */
} nb_close_mode_t;

struct nb_connection {
    nb_watch_t watch;
    nb_timer_t timer;
    nb_link_t link;           /* in transport->connections */
    nb_link_t idles;          /* in transport->idlers, while it asks nothing, or may ask nothing more */
    nb_transport_t *transport;
    nb_exchange_t *exchange;
    char *in;                 /* received and not consumed: somewhere in in_memory; NULL: nothing */
    char *in_memory;
    uint32_t in_length, in_capacity;
    uint32_t served;          /* requests */
    uint64_t deadline;        /* the timer may be armed for an earlier time: see nb_connection_deadline */
    uint64_t began;           /* when the head or body under way began; before the first one, the connection */
    uint32_t scanned;         /* bytes of a head under way */
    uint8_t state;            /* nb_connection_state_t */
    uint8_t close_mode;       /* nb_close_mode_t */
    nb_operation_t *receiving, *sending; /* where the back end does so by itself */
    nb_output_t behind;       /* what follows the bytes on their way */
    nb_link_t sends;          /* in transport->sending */
    uint64_t sending_since;   /* … without any progress */
    nb_rate_t rate;
    uint32_t sending_capacity;
    struct nb_address_count *address_count; /* of its address, where that has a limit: address_limit.c */
    bool asks_head;           /* the head under way is that of a HEAD */
    bool left_over;           /* nb_output_try is to be called when all is out */
    bool ended;               /* the client sends no more */
    bool has_address;
    bool local;               /* a unix socket */
    bool awaits_proxy;        /* its first bytes are to be a PROXY header */
    bool has_proxy_header;    /* its address is from that header */
    bool fiber_reads;         /* a fiber reads the socket itself, to the end of its request */
    bool grace_used;          /* its deadline has passed, but bytes of the client were waiting for us */
    uint8_t address[16];      /* the client's; IPv4 as mapped */
};

typedef struct nb_listener {
    nb_watch_t watch;
    nb_operation_t *accepting; /* where the back end does so by itself */
    bool wanted;
    nb_link_t link;           /* in transport->listeners */
    nb_transport_t *transport;
    VALUE io;
    bool local, proxy;        /* proxy: each connection begins with a PROXY header */
} nb_listener_t;

typedef struct { int fd; bool local, proxy; } nb_accepted_t; /* a client that a listener has accepted */

/* ---- the whole ---- */
typedef struct {
    unsigned max_connections;
    unsigned max_connections_per_address; /* 0: any number */
    uint64_t head_timeout, idle_timeout, write_timeout, linger_timeout, min_answer_rate_after; /* ns, NB_NEVER: none */
    uint64_t min_answer_rate; /* bytes a second; 0: none */
    bool cancel_on_disconnect;
    bool yields;              /* not only idle connections make room for new ones */
    nb_trusted_t trusted;     /* proxies */
} nb_transport_settings_t;

struct nb_transport {
    VALUE self;               /* the object that marks it */
    nb_engine_t *engine;
    const nb_transport_hooks_t *hooks;
    nb_transport_settings_t settings;
    nb_link_t connections;    /* in the order in which they came */
    nb_link_t listeners;
    nb_link_t idlers;         /* connections that ask nothing, the one that does so for longest in front */
    nb_link_t sending;        /* connections with bytes on their way, the one without progress for longest in front */
    unsigned unsubmitted;     /* sends that the kernel may not know of yet … */
    uint64_t submitted;       /* … and when it was told last */
    nb_accepted_t *accepted;  /* by the back end when there was no room: first come, first served */
    size_t accepted_count, accepted_capacity;
    struct nb_hijacked *hijacked; /* connections that the app has taken over: hijacked.c */
    size_t hijacked_count, hijacked_capacity;
    uint64_t hijacked_looked; /* ns: when their closes were looked for last */
    struct st_table *address_counts; /* connections by their networks: address_limit.c */
    nb_timer_t tick;          /* once a second, while there are connections */
    char *scratch;
    nb_output_t outputs[NB_KEPT_OUTPUTS];
    unsigned output_count;
    size_t connection_count;
    bool draining, closed;
    bool paused;              /* there is no room for connections */
    bool standing_back;       /* other processes are to accept */
    nb_balance_t *balance;    /* of all processes that accept from the same sockets; NULL: only this one does */
    int balance_entry;        /* this process' own, or NB_NO_ENTRY */
    nb_timer_t patience;      /* armed while clients are left to other processes */
    uint64_t left_since;
    unsigned late_accepts;    /* how many are accepted when it is over */
    unsigned long accepted_total, evicted, refused_address, dropped, timeouts; /* counters */
};

/* transport.c */
void nb_transport_init(nb_transport_t *, VALUE self, const nb_transport_hooks_t *); /* before it can be marked */
void nb_transport_open(nb_transport_t *, nb_engine_t *);
void nb_transport_mark(nb_transport_t *);
void nb_transport_free(nb_transport_t *);      /* the engine may be gone */
void nb_transport_tick_soon(nb_transport_t *);
PRINTF_ARGS(void nb_transport_report(nb_transport_t *, const char *name, const char *format, ...), 3, 4);

/* listener.c */
void nb_listener_open(nb_transport_t *, VALUE io, bool proxy);
void nb_listeners_pause(nb_transport_t *, bool paused);
void nb_listeners_stand_back(nb_transport_t *, bool);
/* Accepts what the kernel has already let in. last: no other process accepts, and the sockets will be closed. */
void nb_listeners_empty(nb_transport_t *, bool last);
void nb_listeners_close(nb_transport_t *);
void nb_listeners_retry(nb_transport_t *);     /* there may be room now */

void nb_listeners_count(nb_transport_t *);     /* the number of connections has changed */
void nb_listeners_patience_ended(nb_engine_t *, nb_timer_t *); /* transport->patience fires it */

/* balance.c */
#define NB_NO_ENTRY -1
nb_balance_t *nb_balance_new(void);            /* NULL: errno tells why */
void nb_balance_free(nb_balance_t *);
int nb_balance_enter(nb_balance_t *);          /* for one process at a time; NB_NO_ENTRY: there is none left */
void nb_balance_leave(nb_balance_t *, int entry);
void nb_balance_tell(nb_transport_t *);        /* writes down our connections, or that we accept none */
bool nb_balance_permits(const nb_transport_t *); /* whether we may accept one more */

/* eviction.c */
nb_connection_t *nb_eviction_candidate(nb_transport_t *); /* NULL: none can be closed now */
void nb_connection_evict(nb_connection_t *);

/* address_limit.c */
bool nb_address_limit_acquire(nb_connection_t *); /* false: the address has as many as it may; close this one */
void nb_address_limit_release(nb_transport_t *, struct nb_address_count *); /* NULL: it had no limit */
void nb_address_limit_free(nb_transport_t *);

/* connection.c */
static inline void nb_connection_close_by(nb_connection_t *connection, nb_close_mode_t mode) {
    if (connection->close_mode < mode) connection->close_mode = (uint8_t)mode;
}
/* The address may be NULL: not known yet. */
nb_connection_t *nb_connection_open(nb_transport_t *, nb_accepted_t, const struct sockaddr_storage *);
const uint8_t *nb_connection_address(nb_connection_t *); /* 16 bytes; IPv4 as mapped. NULL: it has left */
void nb_connection_deadline(nb_connection_t *, uint64_t deadline);
void nb_connection_break(nb_connection_t *);   /* its close will be a reset */
void nb_connection_next(nb_connection_t *);    /* its request is over, and another may come */
void nb_connection_linger(nb_connection_t *);  /* all is said: closes when the client has had time to read it */
void nb_connection_leave(nb_connection_t *);   /* closes when all is out */
void nb_connection_close(nb_connection_t *);   /* frees it */
void nb_connection_release(nb_connection_t *); /* for hijack: gives up its descriptor and frees it */

/* receive.c */
void nb_connection_keep(nb_connection_t *, const char *bytes, size_t length); /* unread bytes */
int nb_connection_want(nb_connection_t *, short events); /* 0, or errno: close it */
void nb_connection_receive(nb_connection_t *);
bool nb_connection_gone(nb_connection_t *);    /* has the client left? asks the kernel */
void nb_receive_stop(nb_connection_t *);       /* from here on a fiber reads the socket itself */

/* output.c */
void nb_output_add(nb_output_t *, const void *bytes, size_t length);
#define NB_OUTPUT_LITERAL(output, text) nb_output_add(output, text, sizeof(text) - 1)
void nb_output_take(nb_exchange_t *);          /* a buffer that is used again */
void nb_output_give(nb_exchange_t *);
void nb_output_recycle(nb_transport_t *, nb_output_t *);
/* Parks; raises when the client is gone or stalls. The exchange may be over after it. */
void nb_output_flush(nb_exchange_t *);
void nb_output_flush_with(nb_exchange_t *, VALUE string, const char *tail, size_t tail_length);
void nb_output_try(nb_exchange_t *);           /* sends what goes at once */
/* Before anything is added: parks while another fiber flushes; raises when nothing can follow. */
void nb_output_turn(nb_exchange_t *);
void nb_output_release(nb_exchange_t *);       /* it is over: wakes all fibers that wait on its behalf */
void nb_output_check_rate(nb_exchange_t *, uint64_t now); /* ends the wait for a client that reads too slowly */
void nb_output_sent(nb_exchange_t *);          /* nothing is on its way any more */
NORETURN(void nb_output_client_left(nb_exchange_t *, int error));
NORETURN(void nb_output_stalled(nb_exchange_t *, uint64_t timeout, const char *what));
/* False: nothing came in time. */
bool nb_connection_wait(nb_exchange_t *, int events, uint64_t timeout, const char *what);

/* send.c */
void nb_send_finish(nb_exchange_t *);          /* the last bytes of a response: need not wait until they are out */
bool nb_send_words(nb_connection_t *, const char *text, size_t length);
void nb_send_abandon(nb_connection_t *);
void nb_sends_expire(nb_transport_t *, uint64_t now);

/* hijacked.c */
typedef struct nb_hijacked nb_hijacked_t;
void nb_hijacked_add(nb_transport_t *, int fd, struct nb_address_count *);
size_t nb_hijacked_look(nb_transport_t *);     /* forgets those that were closed; how many are open */
void nb_hijacked_look_again(nb_transport_t *); /* unless it has just been done: a limit seems to be reached */
bool nb_transport_is_full(nb_transport_t *);   /* it has max_connections, with the hijacked ones */

/* rate.c */
void nb_rate_begin(nb_rate_t *, int fd, uint64_t sent, uint64_t now);
void nb_rate_end(nb_rate_t *, uint64_t now);
bool nb_rate_is_slow(const nb_rate_t *, const nb_transport_settings_t *, int fd, uint64_t sent, uint64_t now);

#endif
