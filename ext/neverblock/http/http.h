/*
 * The server's C: HTTP/1.1 over the engine's watches. A connection holds no fiber; a request holds one from the
 * moment it is complete to the end of its answer.
 *
 * protocol/ parses bytes, and includes nothing of Ruby's; transport/ moves bytes between sockets and memory; app/ makes
 * requests of them, and responses of what a Rack app returns.
 */
#ifndef NB_HTTP_H
#define NB_HTTP_H

#include "../scheduler/scheduler.h"
#include "protocol/address.h"
#include "protocol/chunks.h"
#include "protocol/forwarded.h"
#include "protocol/parser.h"
#include "protocol/refusals.h"
#include "protocol/status.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define NB_SCRATCH 65536      /* bytes received at a time, into one buffer for all connections */
#define NB_GATHER 16384       /* an answer's output is sent when it has grown to this */
#define NB_COPIED 2048        /* bodies up to this are copied behind the head, larger ones sent from where they are */
#define NB_KEPT_OUTPUTS 64    /* buffers kept for the next answers */

typedef struct nb_core nb_core_t;
typedef struct nb_connection nb_connection_t;
typedef struct nb_request nb_request_t;

/* ---- output: bytes on their way to a client ---- */
typedef struct {
    char *bytes;
    size_t length, capacity, sent;
} nb_output_t;

/* ---- how fast a client takes them ---- */
typedef struct {
    uint64_t since, waited;   /* ns: since when the server waits for the client, 0: it does not; and before that */
    int64_t before;           /* bytes that had been taken when it waited first */
    bool measured;
} nb_pace_t;

/* ---- a request: exists from the first byte of its head to the last of its answer ---- */
typedef enum { NB_BODY_NONE, NB_BODY_LENGTH, NB_BODY_CHUNKED } nb_framing_t;

struct nb_request {
    nb_link_t link;            /* in core->requests: what the GC marks */
    nb_link_t queue;           /* in core->queue while it waits for a place, in core->ready while it waits for a fiber */
    nb_link_t waits;           /* for its connection, or for a turn to write: output.c */
    nb_connection_t *connection; /* NULL once hijacked */
    nb_core_t *core;
    VALUE env, input, handle, hints, path, headers;
    VALUE task;                /* that serves it */
    uint64_t arrived, queued, started; /* ns: first byte, complete, taken by a fiber */
    uint64_t declared, received; /* bytes of body */
    nb_framing_t framing;
    nb_chunks_t chunks;
    VALUE collected;           /* body in memory, a String */
    int file;                  /* … or in an unlinked file; -1: none */
    uint64_t charged;          /* of the quota for bodies */
    nb_output_t out;
    uint64_t declared_output;  /* the answer's Content-Length */
    uint64_t written;          /* bytes of the answer's body */
    uint64_t sent_bytes;       /* … of all of it, that the kernel took */
    uint64_t sent_before;      /* … when the answer's head was made: while it is still so, all can be taken back */
    nb_pace_t pace;
    uint64_t gathering;        /* since when something waits in out; 0: nothing does */
    int status;
    nb_refusal_kind_t refusal; /* the client's body is at fault, should the app fail over it */
    const char *refusal_text;
    int failure;               /* errno of a send that nobody waited for; ECANCELED: of one that was broken off */
    bool streaming_input;      /* the app reads the body itself */
    bool input_ended, expects, continued;
    bool head_only, http10, keep_alive;
    bool client_closes;        /* it said so: nothing follows */
    bool rendering;            /* a head is being put together, with methods of the app's: no other can begin in its middle */
    bool head_sent;            /* nothing can be taken back any more */
    bool has_declared_output, overlong, chunked_output;
    bool raw;                  /* upgraded: bytes as they are, both ways */
    bool flushing;             /* a task waits for the client to take the buffer: it is not to be touched */
    bool awaited;              /* … and others wait for their turn */
    bool finished;             /* the end of the body has been said */
    bool answered;             /* to the end */
    bool hijacked, client_left, cancelled, timed_out, reported, cut;
    bool placed;               /* it has a place among max_in_flight */
    bool crawls;               /* its client takes the answer too slowly */
    bool counted;              /* in core->in_flight … */
    bool streams;              /* … or in core->streams */
};

/* ---- a connection ---- */
typedef enum {
    NB_CONNECTION_IDLE,     /* between requests; the first one too */
    NB_CONNECTION_HEAD,     /* a head has begun */
    NB_CONNECTION_BODY,     /* its body is being collected */
    NB_CONNECTION_BUSY,     /* queued or being answered */
    NB_CONNECTION_LINGER,   /* all is said; waits for the client to have read it */
} nb_connection_state_t;

struct nb_connection {
    nb_watch_t watch;
    nb_timer_t timer;
    nb_link_t link;           /* in core->connections */
    nb_link_t idles;          /* in core->idlers, while it asks nothing, or may ask nothing more */
    nb_core_t *core;
    nb_request_t *request;
    char *in;                 /* received and not consumed: somewhere in in_memory; NULL: nothing */
    char *in_memory;
    uint32_t in_length, in_capacity;
    uint32_t served;
    uint64_t deadline;        /* the timer may be armed for an earlier time: see connection_deadline */
    uint64_t began;           /* of the head or body under way */
    uint32_t scanned;         /* of a head under way */
    uint8_t state;
    nb_operation_t *receiving, *sending; /* where the back end does so by itself */
    nb_output_t behind;       /* what follows the bytes on their way */
    nb_link_t sends;          /* in core->sending */
    uint64_t sending_since;   /* … without any progress */
    nb_pace_t pace;
    uint32_t sending_capacity;
    bool asks_head;           /* the head under way is that of a HEAD */
    bool left_over;           /* of nb_output_try, when all is out */
    struct nb_guest *guest;   /* its address, where that has a limit: guests.c */
    bool leaving;             /* to be closed when all is out */
    bool ended;               /* the client sends no more */
    bool has_address;
    bool local;               /* a unix socket */
    bool awaits_proxy;        /* its first bytes are to be a PROXY header */
    bool introduced;          /* its address is what that says */
    bool doomed;              /* to be closed after this answer */
    bool peer_left;           /* … at once */
    bool broken;              /* … with a reset */
    bool taken;               /* a fiber reads the socket itself, to the end of its request */
    bool excused;             /* its deadline has passed, but bytes of its were waiting for us */
    uint8_t address[16];      /* the client's; IPv4 as mapped */
};

/* A fiber of the crew that has nothing to do. */
typedef struct { nb_wait_t wait; nb_link_t link; nb_core_t *core; } nb_idler_t;

typedef struct nb_listener {
    nb_watch_t watch;
    nb_operation_t *accepting; /* where the back end does so by itself */
    bool wanted;
    nb_link_t link;           /* in core->listeners */
    nb_core_t *core;
    VALUE io;
    bool local, proxy;        /* proxy: each connection begins with a PROXY header */
} nb_listener_t;

typedef struct { int fd; bool local, proxy; } nb_door_t; /* somebody who has come to a listener */

typedef struct {
    unsigned max_in_flight, queue_limit, max_connections, max_connections_per_address, max_streams, max_requests; /* per address, and requests of a connection: 0: any number */
    uint64_t queue_max_wait, max_queue_time, head_timeout, body_timeout, idle_timeout, write_timeout, request_timeout, slow_request,
        linger_timeout, min_body_rate_after, min_answer_rate_after; /* ns, NB_NEVER: none */
    uint64_t min_body_rate, min_answer_rate, max_body_size, body_memory, body_quota;
    nb_head_limits_t head;
    bool cancel_on_disconnect, pass_underscores, early_hints, log_requests,
        shared,               /* other processes accept from the same sockets */
        newlines_separate,    /* Rack 2: a header's value may be several lines */
        yields;               /* not only idle connections make room for new ones */
    VALUE stream_paths;       /* nil, true or an Array of prefixes */
    bool trusts, trusts_local, forwarded_field; /* proxies; those behind unix sockets; they say it in Forwarded */
    nb_trusted_t trusted;
} nb_settings_t;

struct nb_core {
    VALUE self, app, events, scheduler, scope;
    VALUE body;               /* what a fiber of the crew runs */
    VALUE storage;            /* Fiber[] of every request */
    VALUE template, errors;   /* env.c */
    VALUE default_name, default_port; /* SERVER_NAME and SERVER_PORT where a request names none */
    VALUE server_name, server_port, remote; /* of the last request: most name the same */
    uint8_t remote_address[16];
    uint16_t last_port;
    nb_engine_t *engine;
    nb_settings_t settings;
    nb_link_t connections, listeners, requests; /* connections: in the order in which they came */
    nb_link_t queue, ready;   /* requests that wait for a place; that have one and wait for a fiber: admission.c */
    nb_link_t idlers;         /* connections that ask nothing, the one that does so for longest in front */
    nb_link_t sending;        /* connections whose answers are on their way, the one without progress for longest in front */
    unsigned unsubmitted;     /* answers that the kernel may not know of yet … */
    uint64_t submitted;       /* … and when it was told last */
    nb_door_t *door;          /* accepted by the back end when there was no room: first come, first served */
    size_t door_count, door_capacity;
    nb_link_t idle;           /* parked fibers of the crew, the one that served last in front */
    unsigned idle_count, idle_least, crew_count, dismissed;
    bool summoned;            /* one of the crew is on its way to the queue */
    nb_deferred_start_t deferred_start; /* for the front of ready, while the loop is busy with requests that have begun */
    uint64_t forced;          /* when one last began since it had waited for so long */
    uint64_t usual;           /* nanoseconds from the start of a request to its end, on average */
    bool draining, closed, paused;
    bool standing_back;       /* other processes are to accept */
    size_t connection_count, in_flight, streams, queued_count, ready_count, request_count;
    struct st_table *guests;  /* by their networks */
    nb_timer_t tick;          /* once a second, while there are connections */
    nb_timer_t queue_timer;   /* when the next one has waited for too long */
    nb_head_t head;           /* of the request being parsed */
    char date[40];            /* the Date field of this second */
    uint64_t date_until;
    char *scratch;
    nb_output_t outputs[NB_KEPT_OUTPUTS];
    unsigned output_count;
    nb_request_t *spare;      /* request structs to use again, linked by connection */
    uint64_t body_bytes;      /* held for bodies now */
    unsigned long accepted, requests_total, answered, failed, dropped, proxy_errors, timeouts, hijacked, cut, held_back, let_in, evicted,
        refused_address;
    unsigned long refused[NB_REFUSALS];
};

/* core.c */
extern VALUE nb_cCore;
nb_core_t *nb_core_of(VALUE);
PRINTF_ARGS(void nb_core_trouble(nb_core_t *, const char *name, const char *format, ...), 3, 4);
void nb_core_tick_soon(nb_core_t *);
VALUE nb_core_access(VALUE request);           /* for the access log; a pointer */
void nb_core_protect(VALUE (*)(VALUE), VALUE); /* from the loop, where nothing may be raised */
const char *nb_core_date(nb_core_t *, size_t *length);

/* settings.c */
void nb_settings_read(nb_settings_t *, VALUE hash);

/* listener.c */
void nb_listener_open(nb_core_t *, VALUE io, bool proxy);
void nb_listeners_pause(nb_core_t *, bool paused);
void nb_listeners_stand_back(nb_core_t *, bool);
void nb_listeners_empty(nb_core_t *);          /* accepts what waits for it */
void nb_listeners_close(nb_core_t *);
void nb_listeners_retry(nb_core_t *);          /* there may be room now */

/* crowd.c */
nb_connection_t *nb_crowd_first_to_go(nb_core_t *); /* NULL: nobody can be closed now */
void nb_crowd_evict(nb_connection_t *);

/* guests.c */
bool nb_guest_enter(nb_connection_t *);
void nb_guest_leave(nb_connection_t *);
void nb_guests_free(nb_core_t *);

/* connection.c */
nb_connection_t *nb_connection_open(nb_core_t *, nb_door_t, const struct sockaddr_storage *); /* NULL: not known yet */
const uint8_t *nb_connection_address(nb_connection_t *);
void nb_connection_deadline(nb_connection_t *, uint64_t deadline);
bool nb_connection_body_slow(nb_connection_t *);
void nb_connection_continue(nb_connection_t *); /* 100 Continue */
void nb_connection_refuse(nb_connection_t *, const nb_refusal_t *); /* an answer of our own, then the end */
void nb_connection_break(nb_connection_t *);   /* its close will be a reset */
void nb_connection_decline(nb_connection_t *, const nb_refusal_t *); /* 503, and the next request may come */
void nb_connection_next(nb_connection_t *);    /* the request is over: what follows */
void nb_connection_linger(nb_connection_t *);  /* all is said: closes when the client has had a chance to read it */
void nb_connection_leave(nb_connection_t *);   /* closes when all is out */
void nb_connection_close(nb_connection_t *);   /* frees it */
int nb_connection_release(nb_connection_t *);  /* for hijack: gives its descriptor up and frees it */

/* receive.c */
void nb_connection_keep(nb_connection_t *, const char *bytes, size_t length); /* unread bytes */
int nb_connection_want(nb_connection_t *, short events); /* 0, or errno: close it */
void nb_connection_receive(nb_connection_t *);
bool nb_connection_gone(nb_connection_t *);    /* has the client left? asks the kernel */
void nb_receive_stop(nb_connection_t *);       /* from here on a fiber reads the socket itself */

/* request.c */
void nb_request_bytes(nb_connection_t *, char *bytes, size_t length); /* keeps what does not belong to it */
void nb_request_open_input(nb_request_t *);    /* rack.input */
void nb_request_free(nb_request_t *);
void nb_queue_expire(nb_core_t *, uint64_t now);

/* input.c */
VALUE nb_request_read(nb_request_t *, size_t max, bool may_wait);
VALUE nb_request_read_raw(nb_request_t *, size_t max);
void nb_request_drain(nb_request_t *);
void nb_request_free(nb_request_t *);

/* admission.c */
void nb_admission_enter(nb_request_t *);       /* it is all there, or streams its body */
void nb_admission_leave(nb_request_t *);
void nb_admission_advance(nb_core_t *);        /* those that wait get the places that are free */
bool nb_admission_has_place(nb_core_t *);
bool nb_admission_full(nb_core_t *);
void nb_admission_refuse(nb_request_t *);      /* for want of room */
void nb_admission_leave_place(nb_request_t *); /* a request that had begun has ended, or is a stream from now on */
nb_request_t *nb_admission_take(nb_core_t *);  /* the next one to start; NULL: none may */
void nb_admission_expire(nb_core_t *, uint64_t now);
void nb_admission_watch(nb_core_t *);          /* until the next one has waited for too long */
void nb_admission_open(nb_core_t *);
bool nb_admission_turn(nb_core_t *);           /* may one begin now? If not, the loop sends one of the crew later */

/* refuse.c */
void nb_refused(nb_connection_t *, const nb_refusal_t *); /* counts and tells it */
void nb_refused_access(nb_request_t *);        /* for the access log */
VALUE nb_refusals_stats(nb_core_t *);

/* env.c */
extern VALUE nb_key_input;
void nb_env_init(nb_core_t *);
VALUE nb_env_remote(nb_connection_t *);        /* the client's address as a String */
VALUE nb_env_address(nb_request_t *);          /* … or the one that a trusted proxy tells */
VALUE nb_env_asked(nb_request_t *);            /* " (GET /path)", for messages */
VALUE nb_env_build(nb_request_t *, const char *bytes, const nb_head_t *);
void nb_env_queue_time(nb_request_t *, uint64_t now);
VALUE nb_env_finished(nb_request_t *);
void nb_init_env(void);

/* crew.c */
VALUE nb_crew_body(VALUE core);
void nb_crew_send(nb_core_t *);            /* one of the crew to a request that is ready */
void nb_crew_summon(nb_core_t *);
void nb_crew_trim(nb_core_t *);
void nb_crew_dismiss(nb_core_t *, unsigned count);
void nb_crew_stream(nb_request_t *);           /* it no longer counts as in flight but as a stream, if there is room */
void nb_init_crew(void);

/* answer.c */
void nb_answer(nb_request_t *, VALUE answer);
void nb_answer_take_back(nb_request_t *);      /* if nothing of it has left yet */
void nb_answer_plain(nb_request_t *, int status, const char *text);
VALUE nb_answer_interim_head(nb_core_t *, int status, VALUE headers); /* the request may be over after it */
void nb_answer_interim(nb_request_t *, VALUE head);
void nb_init_answer(void);

/* bodies.c */
void nb_body_open_file(nb_request_t *, VALUE body, ID to_path, bool *has_length, uint64_t *length);
void nb_body_array(nb_request_t *, VALUE array);
void nb_body_file(nb_request_t *);
void nb_body_each(nb_request_t *, VALUE body);
void nb_body_stream(nb_request_t *, VALUE body);
void nb_body_hijack(nb_request_t *, VALUE callback);
void nb_body_chunk(nb_request_t *, VALUE string);
void nb_init_bodies(void);

/* output.c */
void nb_output_add(nb_output_t *, const void *bytes, size_t length);
#define NB_OUTPUT_LITERAL(output, text) nb_output_add(output, text, sizeof(text) - 1)
void nb_output_take(nb_request_t *);
void nb_output_give(nb_request_t *);
void nb_output_recycle(nb_core_t *, nb_output_t *);
void nb_output_flush(nb_request_t *);          /* parks; raises when the client is gone or stalls; after it the request of another task may be over */
void nb_output_flush_with(nb_request_t *, VALUE string, const char *tail, size_t tail_length);
void nb_output_try(nb_request_t *);            /* sends what goes at once */
void nb_output_turn(nb_request_t *);           /* before anything is added: parks while another task's flush is under way; raises when nothing can follow */
void nb_output_release(nb_request_t *);        /* whoever waits on its behalf hears that it is over */
void nb_output_hurry(nb_request_t *, uint64_t now); /* ends the wait for a client that takes it too slowly */
void nb_output_sent(nb_request_t *);           /* nothing is on its way any more */
NORETURN(void nb_output_client_left(nb_request_t *, int error));
NORETURN(void nb_output_stalled(nb_request_t *, uint64_t timeout, const char *what));
bool nb_connection_wait(nb_request_t *, int events, uint64_t timeout, const char *what); /* false: nothing came in time */

/* send.c */
void nb_send_finish(nb_request_t *);           /* the last of an answer: need not wait until it is out */
bool nb_send_words(nb_connection_t *, const char *text, size_t length);
void nb_send_abandon(nb_connection_t *);
void nb_sends_expire(nb_core_t *, uint64_t now);

/* pace.c */
void nb_pace_begin(nb_pace_t *, int fd, uint64_t sent, uint64_t now);
void nb_pace_end(nb_pace_t *, uint64_t now);
bool nb_pace_is_slow(const nb_pace_t *, const nb_settings_t *, int fd, uint64_t sent, uint64_t now);

/* handle.c */
VALUE nb_handle_new(nb_request_t *);
VALUE nb_handle_hints(nb_request_t *);
nb_request_t *nb_handle_request(VALUE); /* raises if it is over, or another thread asks */
VALUE nb_handle_take_over(nb_request_t *);
void nb_handle_forget(nb_request_t *);
void nb_init_handle(void);

/* inspect.c */
void nb_init_http_inspect(void);

void nb_init_http(void);

#endif
