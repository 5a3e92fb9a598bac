/*
 * The app layer: from bytes to a request, from a Rack app's return value to a response. It knows the transport, the
 * protocol and the scheduler. A request holds a fiber from the moment a handler takes it to the end of its response.
 *
 *     server.c        the Ruby object (NeverBlock::Server::Core), its hooks of the transport, its counters
 *     settings.c      its settings
 *     balance_class.c the Ruby object that processes share: how many connections each of them has
 *     request.c       parses heads, collects bodies
 *     input.c         a body that the app reads itself
 *     admission.c     decides which request starts next
 *     refuse.c        turns requests away
 *     env.c           the Rack environment
 *     handlers.c      the fibers that serve requests
 *     response.c      from what the app returned to a response: head and framing
 *     response_fields.c … its fields
 *     response_body.c … its body
 *     rack_request.c  the Ruby object that the app has of a request: hijack, early hints, streams
 *     inspect.c       the parsers as Ruby sees them, for tests
 */
#ifndef NB_HTTP_APP_H
#define NB_HTTP_APP_H

#include "../../scheduler/scheduler.h"
#include "../protocol/chunks.h"
#include "../protocol/parser.h"
#include "../protocol/refusals.h"
#include "../transport/transport.h"

#define NB_NEW_CONNECTION (500 * NB_MILLISECOND) /* how long a stop waits for the first request of a new connection */
#define NB_COPIED 2048        /* bodies up to this are copied behind the head, larger ones sent from where they are */

typedef struct nb_server nb_server_t;

/* ---- a request: exists from the first byte of its head to the last of its response ---- */
/*
 *     ARRIVING ──► QUEUED ──► READY ──► IN_FLIGHT ──► STREAM
 *         └───────────────────▲            └─────────────┴──► SERVED
 */
typedef enum {
    NB_REQUEST_ARRIVING,       /* its body is being collected */
    NB_REQUEST_QUEUED,         /* waits for a place: in server->queue */
    NB_REQUEST_READY,          /* has a place among max_in_flight, waits for a fiber: in server->ready */
    NB_REQUEST_IN_FLIGHT,      /* a handler serves it: counted in server->in_flight … */
    NB_REQUEST_STREAM,         /* … or in server->streams: its body goes on, or it was hijacked */
    NB_REQUEST_SERVED,         /* counted no more */
} nb_request_phase_t;

/*
 *     NONE ──► RENDERING ──► HEAD_SENT ──► ENDED ──► COMPLETE
 *       ▲                        │ └──────────────────►▲
 *       └────────────────────────┘ taken back: nothing of it had left
 */
typedef enum {
    NB_RESPONSE_NONE,
    NB_RESPONSE_RENDERING,     /* the head is being written, by methods of the app's too: no other can begin */
    NB_RESPONSE_HEAD_SENT,     /* the head is in io.out, or has left */
    NB_RESPONSE_ENDED,         /* … and the end of a streamed body */
    NB_RESPONSE_COMPLETE,      /* all of it was handed to the transport */
} nb_response_phase_t;

typedef enum {
    NB_BODY_NONE,              /* no body; of a response also: it ends with the connection */
    NB_BODY_LENGTH,            /* Content-Length tells the end */
    NB_BODY_CHUNKED,
    NB_BODY_RAW,               /* upgraded: bytes as they are, both ways */
} nb_framing_t;

/*
 *     AWAITS_CONTINUE ──► COMING ──► ENDED
 *             └──────────────────────►▲ collected without a wait, or given up
 */
typedef enum {
    NB_INPUT_COMING,           /* more of the body is expected; the first state without Expect */
    NB_INPUT_AWAITS_CONTINUE,  /* the client waits for 100 Continue before it sends the body */
    NB_INPUT_ENDED,            /* all of it was received, there is none, or it can't be read */
} nb_input_phase_t;

/*
 *     KEEP ──► SERVER_CLOSES        CLIENT_CLOSES
 */
typedef enum {
    NB_PERSISTENCE_KEEP,          /* another request may follow on the connection */
    NB_PERSISTENCE_SERVER_CLOSES, /* the response says Connection: close */
    NB_PERSISTENCE_CLIENT_CLOSES, /* the client said that nothing follows */
} nb_persistence_t;

typedef struct nb_request {
    nb_exchange_t io;          /* first: the transport's part of it */
    nb_link_t link;            /* in server->requests: what the GC marks */
    nb_link_t queue;           /* in server->queue or server->ready */
    nb_server_t *server;
    struct nb_request *next_spare;
    nb_request_phase_t phase;
    nb_response_phase_t response;
    nb_input_phase_t input_phase;
    nb_persistence_t persistence;
    VALUE env, input, rack_request, hints, path, headers;
    VALUE task;                /* of its handler, while it serves the request */
    uint64_t arrived, queued, started; /* ns: first byte, complete, taken by a fiber */
    uint64_t declared, received; /* bytes of body */
    nb_framing_t framing, response_framing;
    nb_chunks_t chunks;
    VALUE collected;           /* body in memory, a String */
    int file;                  /* … or in an unlinked file; -1: none */
    uint64_t charged;          /* of the quota for bodies */
    uint64_t declared_output;  /* the response's Content-Length */
    uint64_t written;          /* bytes of the response's body */
    uint64_t sent_before;      /* io.sent_bytes before the head: while they are equal, all can be taken back */
    uint64_t gathering;        /* since when something waits in io.out; 0: nothing does */
    int status;
    nb_refusal_kind_t refusal; /* the reason if the app fails on reading the body */
    const char *refusal_text;
    bool streaming_input;      /* the app reads the body itself */
    bool head_only, http10;
    bool overlong;             /* the response's body is longer than its Content-Length */
    bool hijacked, cancelled, timed_out, reported, cut;
} nb_request_t;

/* A handler has taken it. */
static inline bool nb_request_begun(const nb_request_t *request) { return request->phase >= NB_REQUEST_IN_FLIGHT; }

/* NULL: the connection is between requests. */
static inline nb_request_t *nb_request_of(const nb_connection_t *connection) {
    return (nb_request_t *)connection->exchange;
}

/* ---- the server ---- */
typedef struct {
    unsigned max_in_flight, queue_limit, max_streams;
    unsigned max_requests;    /* of a connection; 0: any number */
    /* ns, NB_NEVER: none */
    uint64_t queue_max_wait, max_queue_time, body_timeout, request_timeout, slow_request, min_body_rate_after;
    uint64_t min_body_rate, max_body_size, body_memory, body_quota;
    nb_head_limits_t head;
    bool pass_underscores, early_hints, log_requests;
    bool newlines_separate;   /* Rack 2: a header's value may be several lines */
    VALUE stream_paths;       /* nil, true or an Array of prefixes */
    bool trusts;              /* any proxies */
    bool trusts_local;        /* those behind unix sockets */
    bool forwarded_field;     /* they use Forwarded */
} nb_settings_t;

/* A handler fiber that has nothing to do. */
typedef struct { nb_wait_t wait; nb_link_t link; nb_server_t *server; } nb_idler_t;

struct nb_server {
    nb_transport_t net;       /* first */
    VALUE self, app, events, scheduler, scope;
    VALUE body;               /* what a handler fiber runs */
    VALUE storage;            /* Fiber[] of every request */
    VALUE template, errors;   /* env.c */
    VALUE balance;            /* holds net.balance */
    VALUE default_name, default_port; /* SERVER_NAME and SERVER_PORT where a request names none */
    VALUE server_name, server_port, remote; /* of the last request: most name the same */
    uint8_t remote_address[16];
    uint16_t last_port;
    nb_settings_t settings;
    nb_link_t requests;
    nb_link_t queue, ready;   /* requests that wait for a place; that have one and wait for a fiber: admission.c */
    nb_link_t idle;           /* parked handlers, the one that served last in front */
    unsigned idle_count, idle_least, handler_count;
    unsigned to_end;          /* handlers that were woken to end */
    bool waking;              /* a handler is on its way to the queue */
    VALUE starting;           /* … and this is its task, if it has not begun; or nil */
    nb_deferred_start_t deferred_start; /* for the front of ready, while the loop is busy with requests begun before */
    uint64_t forced;          /* when a request last began for having waited too long */
    uint64_t usual;           /* nanoseconds from the start of a request to its end, on average */
    size_t in_flight, streams, queued_count, ready_count, request_count;
    nb_timer_t queue_timer;   /* when the next one has waited for too long */
    nb_head_t head;           /* of the request being parsed */
    char date[40];            /* the Date field of this second */
    uint64_t date_until;
    nb_request_t *spare;      /* request structs to use again */
    uint64_t body_bytes;      /* held for bodies now */
    unsigned long requests_total, answered, failed, proxy_errors, hijacked, cut, held_back, let_in; /* counters */
    unsigned long refused[NB_REFUSALS];
};

static inline nb_server_t *nb_server_of(const nb_connection_t *connection) {
    return (nb_server_t *)connection->transport;
}

/* In a child that came back from an app's fork: its parent responds. */
static inline bool nb_server_is_forked(const nb_server_t *server) {
    return server->net.engine->fork_generation != nb_fork_generation;
}

/* server.c */
extern VALUE nb_cCore;
nb_server_t *nb_server_get(VALUE);
PRINTF_ARGS(void nb_server_trouble(nb_server_t *, const char *name, const char *format, ...), 3, 4);
VALUE nb_server_access(VALUE request);           /* for the access log; a pointer */
void nb_server_protect(VALUE (*)(VALUE), VALUE); /* from the loop, where nothing may be raised */
const char *nb_server_date(nb_server_t *, size_t *length);

/* settings.c */
void nb_settings_read(nb_server_t *, VALUE hash);

/* request.c */
void nb_request_bytes(nb_connection_t *, char *bytes, size_t length); /* keeps what does not belong to it */
void nb_request_continue(nb_request_t *);      /* 100 Continue */
void nb_request_open_input(nb_request_t *);    /* rack.input */
void nb_request_over(nb_request_t *);          /* frees it; its connection goes on, or ends */
void nb_request_free(nb_request_t *);

/* input.c */
VALUE nb_request_read(nb_request_t *, size_t max, bool may_wait);
VALUE nb_request_read_raw(nb_request_t *, size_t max);
void nb_request_drain(nb_request_t *);

/* admission.c */
void nb_admission_enter(nb_request_t *);       /* it is complete, or streams its body */
void nb_admission_leave(nb_request_t *);
void nb_admission_advance(nb_server_t *);      /* those that wait get the places that are free */
bool nb_admission_has_place(nb_server_t *);
bool nb_admission_full(nb_server_t *);
void nb_admission_refuse(nb_request_t *);      /* for want of room */
void nb_admission_leave_place(nb_request_t *); /* a request that had begun has ended, or is a stream from now on */
nb_request_t *nb_admission_take(nb_server_t *); /* the next one to start; NULL: none may */
void nb_admission_expire(nb_server_t *, uint64_t now);
void nb_admission_watch(nb_server_t *);        /* until the next one has waited for too long */
void nb_admission_open(nb_server_t *);
bool nb_admission_turn(nb_server_t *);         /* may one begin now? If not, the loop wakes a handler later */

/* refuse.c */
void nb_refuse_request(nb_connection_t *, const nb_refusal_t *); /* a response of our own, then the end */
void nb_decline_request(nb_request_t *, const nb_refusal_t *); /* 503, and the next request may come */
void nb_refused(nb_connection_t *, const nb_refusal_t *); /* counts and tells it */
VALUE nb_refusals_stats(nb_server_t *);

/* env.c */
extern VALUE nb_key_input;
void nb_env_init(nb_server_t *);
VALUE nb_env_remote(nb_connection_t *);        /* the client's address as a String; "unknown" once it has left */
VALUE nb_env_address(nb_request_t *);          /* … or the one that a trusted proxy tells */
VALUE nb_env_asked(nb_request_t *);            /* " (GET /path)", for messages */
VALUE nb_env_build(nb_request_t *, const char *bytes, const nb_head_t *);
void nb_env_queue_time(nb_request_t *, uint64_t now);
void nb_env_length(nb_request_t *);           /* of a body in chunks */
VALUE nb_env_finished(nb_request_t *);
void nb_init_env(void);

/* handlers.c */
VALUE nb_handlers_body(VALUE server);
void nb_handlers_send(nb_server_t *);          /* a handler to a request that is ready */
void nb_handlers_wake(nb_server_t *);          /* … if there is one, and it may begin now */
void nb_handlers_trim(nb_server_t *);          /* ends some of those that were not needed */
void nb_handlers_end(nb_server_t *, unsigned count);
void nb_handlers_stream(nb_request_t *);       /* it no longer counts as in flight but as a stream, if there is room */
void nb_init_handlers(VALUE core);

/* response_fields.c */
typedef struct {
    nb_output_t *out;         /* where they are written */
    uint64_t length;          /* Content-Length, which is not written */
    VALUE hijack, protocol;   /* rack.hijack, rack.protocol */
    bool has_length, has_date, upgrade, close, newlines_separate;
} nb_response_fields_t;

nb_response_fields_t nb_response_fields_of(nb_server_t *, nb_output_t *);
void nb_response_fields_add(nb_response_fields_t *, VALUE headers);
void nb_response_field_line(nb_response_fields_t *, VALUE name, VALUE whole, const char *bytes, size_t length);
VALUE nb_response_field_lines(nb_server_t *, VALUE headers, bool newlines_separate);
VALUE nb_response_trailers(nb_request_t *, VALUE body); /* field lines, or nil */
void nb_init_response_fields(void);

/* response.c */
void nb_respond(nb_request_t *, VALUE returned);
void nb_respond_plain(nb_request_t *, int status, const char *text);
void nb_response_take_back(nb_request_t *);    /* if nothing of it has left yet */
VALUE nb_interim_head(nb_server_t *, VALUE status, VALUE headers); /* the request may be over after it */
void nb_respond_interim(nb_request_t *, VALUE head);
void nb_init_response(void);

/* response_body.c */
bool nb_body_open_file(nb_request_t *, VALUE body, ID to_path); /* false: it has no file to send */
uint64_t nb_body_file_size(const nb_request_t *);
void nb_body_array(nb_request_t *, VALUE array);
void nb_body_file(nb_request_t *);
void nb_body_each(nb_request_t *, VALUE body);
void nb_body_stream(nb_request_t *, VALUE body);
void nb_body_hijack(nb_request_t *, VALUE callback);
void nb_body_chunk(nb_request_t *, VALUE string);
void nb_init_response_body(void);

/* rack_request.c */
VALUE nb_rack_request_new(nb_request_t *);
VALUE nb_rack_request_hints(nb_request_t *);
nb_request_t *nb_rack_request_get(VALUE);      /* raises if it is over, or another thread asks */
VALUE nb_rack_request_take_over(nb_request_t *);
void nb_rack_request_forget(nb_request_t *);
void nb_init_rack_request(void);

/* balance_class.c */
nb_balance_t *nb_balance_get(VALUE);
void nb_init_balance(VALUE server);

/* inspect.c */
void nb_init_http_inspect(void);

void nb_init_http(void);

#endif
