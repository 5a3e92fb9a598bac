/*
 * The Rack environment: a real Hash, copied from a frozen one with the keys that every request has, so that it does
 * not grow while it is filled. Common keys and values are Strings made once. Other field names become Strings of the
 * request alone, frozen before they become keys: Hash#[]= would put them into Ruby's table of interned strings, which
 * clients must not fill.
 */
#include "app.h"
#include "../protocol/header_names.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <ruby/encoding.h>
#include <stdlib.h>
#include <string.h>

static VALUE keys[NB_KNOWN_NAMES];
static VALUE methods[NB_METHODS];
static VALUE empty, unknown, chunked, protocol_10, protocol_11, http, https, on, port_of_https, shared_values[8];
static struct {
    VALUE method, path, query, protocol, name, port, remote, uri, hijack, hints, interim, finished, host, scheme, https;
} key;
VALUE nb_key_input;
static VALUE key_queue_time, key_protocols, comma;

static const char *const common_values[] = {"*/*", "keep-alive", "close", "gzip, deflate", "gzip, deflate, br",
                                            "gzip, deflate, br, zstd", "1", "no-cache"};

static VALUE constant(const char *text) {
    VALUE string = rb_str_freeze(rb_enc_interned_str_cstr(text, rb_ascii8bit_encoding()));
    rb_gc_register_mark_object(string);
    return string;
}

static VALUE key_string(const char *text) {
    VALUE string = rb_interned_str_cstr(text);
    rb_gc_register_mark_object(string);
    return string;
}

static VALUE binary(const char *bytes, size_t length) { return length ? rb_str_new(bytes, (long)length) : empty; }

static VALUE slice(const char *bytes, nb_span_t span) { return binary(bytes + span.at, span.length); }

/* ---- once per server ---- */
void nb_env_init(nb_server_t *server) {
    VALUE template = rb_hash_new();
    const struct { const char *name; VALUE value; } fixed[] = {
        {"rack.version", rb_ary_freeze(rb_ary_new_from_args(2, INT2FIX(3), INT2FIX(1)))},
        {"rack.multithread", Qfalse}, {"rack.multiprocess", Qfalse}, {"rack.run_once", Qfalse}, {"rack.hijack?", Qtrue},
        {"rack.url_scheme", http}, {"SCRIPT_NAME", empty}, {"QUERY_STRING", empty},
        {"SERVER_PROTOCOL", protocol_11}, {"GATEWAY_INTERFACE", constant("CGI/1.2")},
        {"SERVER_SOFTWARE", constant("NeverBlock")},
        {"rack.errors", server->errors},
        {"rack.input", rb_const_get(rb_path2class("NeverBlock::Server"), rb_intern("NO_INPUT"))},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        rb_hash_aset(template, key_string(fixed[i].name), fixed[i].value);
    const VALUE later[] = {key.method, key.path, key.uri, key.name, key.port, key.remote, key.hijack, key.finished,
                           key.host, key_queue_time};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) rb_hash_aset(template, later[i], Qnil);
    if (server->settings.early_hints) {
        rb_hash_aset(template, key.hints, Qnil);
        rb_hash_aset(template, key.interim, Qnil);
    }
    server->template = rb_hash_freeze(template);
}

/* ---- per request ---- */
/* One object for both: a request does not pay for a second one. */
static void add_hints(VALUE env, VALUE hints) {
    rb_hash_aset(env, key.hints, hints);
    rb_hash_aset(env, key.interim, hints);
}

static VALUE common_value(const char *bytes, size_t length) {
    for (size_t i = 0; i < sizeof common_values / sizeof *common_values; i++)
        if (strlen(common_values[i]) == length && memcmp(common_values[i], bytes, length) == 0) return shared_values[i];
    return binary(bytes, length);
}

/* Fields of one name become one value (RFC 9110 §5.3), cookies with a semicolon (as RFC 9113 §8.2.3 says of HTTP/2). */
static void add_field(VALUE env, VALUE name, VALUE value, bool cookie) {
    VALUE before = rb_hash_lookup2(env, name, Qundef);
    if (before != Qundef && !NIL_P(before)) {
        VALUE joined = rb_str_dup(before);
        rb_str_cat_cstr(joined, cookie ? "; " : ", ");
        value = rb_str_append(joined, value);
    }
    rb_hash_aset(env, name, value);
}

static void other_field(VALUE env, const char *bytes, const nb_field_t *field, bool underscored) {
    char name[NB_MAX_NAME + 5] = "HTTP_";
    for (uint32_t i = 0; i < field->name.length; i++) {
        char letter = bytes[field->name.at + i];
        name[5 + i] = letter == '-' ? '_' : (char)toupper((unsigned char)letter);
    }
    VALUE string = rb_str_freeze(rb_str_new(name, field->name.length + 5));
    if (underscored && rb_hash_lookup2(env, string, Qundef) != Qundef) return;
    add_field(env, string, slice(bytes, field->value), false);
}

static bool has_underscore(const char *bytes, const nb_field_t *field) {
    return memchr(bytes + field->name.at, '_', field->name.length) != NULL;
}

static bool is_of(const char *bytes, const nb_field_t *field, unsigned kinds) {
    return (nb_forwarded_kind(bytes + field->name.at, field->name.length) & kinds) != 0;
}

/* dropped: kinds of fields that no trusted proxy vouches for, see forwarded.h */
static void add_fields(nb_request_t *request, VALUE env, const char *bytes, const nb_head_t *head, unsigned dropped) {
    bool seen[NB_KNOWN_NAMES] = {false}, underscored = false;
    for (uint32_t i = 0; i < head->field_count; i++) {
        const nb_field_t *field = &head->fields[i];
        uint8_t known = field->known;
        if (dropped && is_of(bytes, field, dropped)) continue;
        if (known == NB_NAME_UNKNOWN) {
            if (has_underscore(bytes, field)) underscored = true;
            else other_field(env, bytes, field, false);
        } else if (known == NB_NAME_PROXY || known == NB_NAME_VERSION) {
            continue; /* httpoxy, CVE-2016-5385; and HTTP_VERSION is the server's word for the protocol */
        } else if (known == NB_NAME_TRANSFER_ENCODING || known == NB_NAME_HOST) {
            continue; /* decoded by the server, or added by nb_env_build; in env already */
        } else if (!seen[known]) {
            seen[known] = true;
            rb_hash_aset(env, keys[known], common_value(bytes + field->value.at, field->value.length));
        } else {
            add_field(env, keys[known], slice(bytes, field->value), known == NB_NAME_COOKIE);
        }
    }
    if (!underscored || !request->server->settings.pass_underscores) return;
    for (uint32_t i = 0; i < head->field_count; i++) /* last: X_Y must never pass for X-Y (CVE-2024-45614) */
        if (has_underscore(bytes, &head->fields[i]) && !(dropped && is_of(bytes, &head->fields[i], NB_ALL_OF_PROXIES)))
            other_field(env, bytes, &head->fields[i], true);
}

/* The last request's name and port are used again: most name the same. */
static void add_server(nb_server_t *server, VALUE env, const char *bytes, const nb_head_t *head) {
    const char *name = bytes + head->server_name.at;
    size_t length = head->server_name.length;
    if (NIL_P(server->server_name) || (size_t)RSTRING_LEN(server->server_name) != length ||
        memcmp(RSTRING_PTR(server->server_name), name, length) != 0)
        server->server_name = rb_str_freeze(binary(name, length));
    if (server->last_port != head->server_port || NIL_P(server->server_port)) {
        server->last_port = head->server_port;
        server->server_port = rb_str_freeze(rb_sprintf("%u", head->server_port ? head->server_port : 80u));
    }
    rb_hash_aset(env, key.name, server->server_name);
    rb_hash_aset(env, key.port, server->server_port);
}

static VALUE address_text(nb_server_t *server, const uint8_t *address) {
    char text[NB_ADDRESS_TEXT];
    if (!address) return unknown;
    if (!NIL_P(server->remote) && memcmp(server->remote_address, address, 16) == 0) return server->remote;
    nb_address_text(text, address);
    memcpy(server->remote_address, address, 16);
    return server->remote = rb_str_freeze(rb_str_new_cstr(text));
}

VALUE nb_env_remote(nb_connection_t *connection) {
    return address_text(nb_server_of(connection), nb_connection_address(connection));
}

VALUE nb_env_address(nb_request_t *request) {
    VALUE address = rb_hash_lookup2(request->env, key.remote, Qnil);
    bool is_address = RB_TYPE_P(address, T_STRING); /* the app may have put anything there */
    return is_address ? address : nb_env_remote(request->io.connection);
}

VALUE nb_env_asked(nb_request_t *request) {
    VALUE method = rb_hash_lookup2(request->env, key.method, Qnil);
    VALUE path = rb_hash_lookup2(request->env, key.path, Qnil);
    bool known = RB_TYPE_P(method, T_STRING) && RB_TYPE_P(path, T_STRING);
    return known ? rb_sprintf(" (%" PRIsVALUE " %" PRIsVALUE ")", method, path) : rb_str_new_cstr("");
}

/* ---- behind proxies ---- */
static bool trusts_peer(nb_connection_t *connection) {
    const nb_settings_t *settings = &nb_server_of(connection)->settings;
    if (connection->local && !connection->has_proxy_header) return settings->trusts_local;
    const uint8_t *address = nb_connection_address(connection);
    return address && nb_trusts(&connection->transport->settings.trusted, address);
}

static void set_scheme(VALUE env, const nb_head_t *head, nb_scheme_t scheme) {
    if (scheme != NB_SCHEME_HTTPS) return; /* the template says http */
    rb_hash_aset(env, key.scheme, https);
    rb_hash_aset(env, key.https, on);
    if (!head->server_port) rb_hash_aset(env, key.port, port_of_https);
}

/* The list is replaced by the element that counts: apps and frameworks, which read it too, see no other address. */
static void follow_proxies(nb_server_t *server, VALUE env, const nb_head_t *head) {
    bool standard = server->settings.forwarded_field;
    VALUE name = keys[standard ? NB_NAME_FORWARDED : NB_NAME_X_FORWARDED_FOR], list = rb_hash_lookup2(env, name, Qnil);
    VALUE proto = standard ? Qnil : rb_hash_lookup2(env, keys[NB_NAME_X_FORWARDED_PROTO], Qnil);
    nb_client_t client;
    if (!NIL_P(list)) {
        const char *text = RSTRING_PTR(list);
        size_t length = (size_t)RSTRING_LEN(list);
        if ((standard ? nb_forwarded : nb_forwarded_for)(&server->net.settings.trusted, text, length, &client)) {
            VALUE address = address_text(server, client.address);
            rb_hash_aset(env, key.remote, address);
            rb_hash_aset(env, name, standard ? rb_str_subseq(list, (long)client.at, (long)client.length) : address);
            set_scheme(env, head, client.scheme);
        } else {
            rb_hash_delete(env, name);
        }
    }
    if (NIL_P(proto)) return;
    nb_scheme_t scheme = nb_forwarded_proto(RSTRING_PTR(proto), (size_t)RSTRING_LEN(proto));
    set_scheme(env, head, scheme);
    if (scheme) rb_hash_aset(env, keys[NB_NAME_X_FORWARDED_PROTO], scheme == NB_SCHEME_HTTPS ? https : http);
    else rb_hash_delete(env, keys[NB_NAME_X_FORWARDED_PROTO]);
    rb_hash_delete(env, keys[NB_NAME_X_FORWARDED_SCHEME]); /* two more names for it */
    rb_hash_delete(env, keys[NB_NAME_X_FORWARDED_SSL]);
}

/* The protocols that the client offers to change to (Rack 3.1), the preferred one first. */
static void add_protocols(VALUE env) {
    VALUE offered = rb_hash_lookup2(env, keys[NB_NAME_UPGRADE], Qnil);
    if (!NIL_P(offered)) rb_hash_aset(env, key_protocols, rb_funcall(offered, rb_intern("split"), 1, comma));
}

VALUE nb_env_build(nb_request_t *request, const char *bytes, const nb_head_t *head) {
    nb_server_t *server = request->server;
    VALUE env = request->env = rb_hash_dup(server->template);
    request->path = head->path.length ? slice(bytes, head->path) : rb_str_new_cstr("/"); /* RFC 9112 §3.2.2 */
    rb_hash_aset(env, key.method, head->method_id ? methods[head->method_id] : slice(bytes, head->method));
    rb_hash_aset(env, key.path, request->path);
    rb_hash_aset(env, key.uri, slice(bytes, head->target));
    if (head->query.length) rb_hash_aset(env, key.query, slice(bytes, head->query));
    if (head->minor == 0) rb_hash_aset(env, key.protocol, protocol_10);
    if (head->host.length) {
        rb_hash_aset(env, key.host, slice(bytes, head->host));
        add_server(server, env, bytes, head);
    } else {
        rb_hash_delete(env, key.host);
        rb_hash_aset(env, key.name, server->default_name);
        rb_hash_aset(env, key.port, server->default_port);
    }
    rb_hash_aset(env, key.remote, nb_env_remote(request->io.connection));
    rb_hash_aset(env, key.hijack, request->rack_request = nb_rack_request_new(request));
    if (server->settings.early_hints) add_hints(env, nb_rack_request_hints(request));
    rb_hash_aset(env, key.finished, rb_ary_new());
    const nb_settings_t *settings = &server->settings;
    bool trusted = settings->trusts && trusts_peer(request->io.connection);
    unsigned other = settings->forwarded_field ? NB_X_FORWARDED : NB_FORWARDED;
    unsigned dropped = !settings->trusts ? 0 : trusted ? other : NB_ALL_OF_PROXIES;
    add_fields(request, env, bytes, head, dropped);
    if (trusted) follow_proxies(server, env, head);
    if (head->upgrade) add_protocols(env);
    if (head->chunked && request->streaming_input) rb_hash_aset(env, keys[NB_NAME_TRANSFER_ENCODING], chunked);
    return env;
}

/* Of a body in chunks that has been received whole. Frameworks tell by CONTENT_LENGTH, or by HTTP_TRANSFER_ENCODING
 * while the length is unknown, whether a request has content. */
void nb_env_length(nb_request_t *request) {
    rb_hash_aset(request->env, keys[NB_NAME_CONTENT_LENGTH], rb_sprintf("%" PRIu64, request->received));
}

/* X-Request-Start: when a proxy took the request, as "t=1700000000.123" in seconds, or in milli- or microseconds. */
static double proxy_start(VALUE env) {
    VALUE value = rb_hash_lookup2(env, keys[NB_NAME_X_REQUEST_START], Qnil);
    if (!RB_TYPE_P(value, T_STRING)) return 0;
    char text[40];
    long length = RSTRING_LEN(value);
    if (length <= 0 || length >= (long)sizeof text) return 0;
    memcpy(text, RSTRING_PTR(value), (size_t)length);
    text[length] = 0;
    const char *digits = strncmp(text, "t=", 2) == 0 ? text + 2 : text;
    double stamp = strtod(digits, NULL);
    if (!isfinite(stamp)) return 0; /* "inf", which no division makes smaller */
    while (stamp > 1e11) stamp /= 1000;
    return stamp > 1e9 ? stamp : 0;
}

/* Seconds from the moment the request was complete, or a proxy took it, to now. */
void nb_env_queue_time(nb_request_t *request, uint64_t now) {
    double waited = (double)(now - request->queued) / 1e9, since = proxy_start(request->env);
    if (since > 0) {
        double total = (double)nb_now_wall() / 1e9 - since;
        if (total > waited) waited = total;
    }
    rb_hash_aset(request->env, key_queue_time, DBL2NUM(waited));
}

VALUE nb_env_finished(nb_request_t *request) { return rb_hash_lookup2(request->env, key.finished, Qnil); }

void nb_init_env(void) {
    for (int i = 1; i < NB_KNOWN_NAMES; i++) keys[i] = key_string(nb_known_names[i].key);
    for (int i = 1; i < NB_METHODS; i++) methods[i] = constant(nb_method_names[i]);
    for (size_t i = 0; i < sizeof common_values / sizeof *common_values; i++)
        shared_values[i] = constant(common_values[i]);
    empty = constant("");
    unknown = constant("unknown");
    chunked = constant("chunked");
    http = constant("http");
    https = constant("https");
    on = constant("on");
    port_of_https = constant("443");
    protocol_10 = constant("HTTP/1.0");
    protocol_11 = constant("HTTP/1.1");
    key.method = key_string("REQUEST_METHOD");
    key.path = key_string("PATH_INFO");
    key.uri = key_string("REQUEST_URI");
    key.query = key_string("QUERY_STRING");
    key.protocol = key_string("SERVER_PROTOCOL");
    key.name = key_string("SERVER_NAME");
    key.port = key_string("SERVER_PORT");
    key.remote = key_string("REMOTE_ADDR");
    key.hijack = key_string("rack.hijack");
    key.hints = key_string("rack.early_hints");
    key.interim = key_string("neverblock.interim");
    key.finished = key_string("rack.response_finished");
    key.host = keys[NB_NAME_HOST];
    key.scheme = key_string("rack.url_scheme");
    key.https = key_string("HTTPS");
    nb_key_input = key_string("rack.input");
    key_queue_time = key_string("neverblock.queue_time");
    key_protocols = key_string("rack.protocol");
    comma = rb_reg_new_str(rb_str_new_cstr("[ \\t]*,[ \\t]*"), 0);
    rb_gc_register_mark_object(comma);
}
