/*
 * NeverBlock::Server::Request: what an app holds of its request beyond env. It is env["rack.hijack"], and the methods
 * of Server::Input and Server::Stream call its methods. NeverBlock::Server::EarlyHints sends interim responses. When
 * the request is over the objects stay, empty.
 */
#include "app.h"
#include <ruby/io.h>

static VALUE cRequest, cEarlyHints;
static ID id_for_fd, id_ungetbyte;

static size_t rack_request_size(const void *pointer) { return 0; }

/* The server owns the struct: the object only points to it. */
static const rb_data_type_t rack_request_type = {
    .wrap_struct_name = "NeverBlock::Server::Request",
    .function = {.dmark = NULL, .dfree = NULL, .dsize = rack_request_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE nb_rack_request_new(nb_request_t *request) {
    return TypedData_Wrap_Struct(cRequest, &rack_request_type, request);
}

VALUE nb_rack_request_hints(nb_request_t *request) {
    return request->hints = TypedData_Wrap_Struct(cEarlyHints, &rack_request_type, request);
}

void nb_rack_request_forget(nb_request_t *request) {
    if (!NIL_P(request->rack_request)) RTYPEDDATA_DATA(request->rack_request) = NULL;
    if (!NIL_P(request->hints)) RTYPEDDATA_DATA(request->hints) = NULL;
}

/* Callers may come late, or from another thread. */
nb_request_t *nb_rack_request_get(VALUE self) {
    nb_request_t *request = rb_check_typeddata(self, &rack_request_type);
    if (!request || !request->io.connection)
        rb_raise(rb_eIOError, "the request is over, or its connection was hijacked or lost");
    if (nb_server_is_forked(request->server))
        rb_raise(rb_eIOError, "the request belongs to the process that has forked this one, which responds to it");
    if (rb_thread_current() != request->server->net.engine->thread)
        rb_raise(rb_eThreadError, "a request's stream belongs to its server's thread; write to it from there, "
                                  "for example through a Queue");
    return request;
}

/* The socket itself, for the app to use and close. Bytes beyond the request are pushed back into it. */
VALUE nb_rack_request_take_over(nb_request_t *request) {
    nb_output_flush(&request->io);
    nb_connection_t *connection = request->io.connection;
    nb_receive_stop(connection);
    VALUE unread = connection->in_length ? rb_str_new(connection->in, connection->in_length) : Qnil;
    VALUE klass = rb_path2class(connection->local ? "UNIXSocket" : "TCPSocket");
    VALUE fd = INT2NUM(connection->watch.fd), io = rb_funcallv(klass, id_for_fd, 1, &fd);
    nb_output_release(&request->io);
    request->hijacked = true;
    request->server->hijacked++;
    connection->exchange = NULL;
    request->io.connection = NULL;
    nb_connection_release(connection);
    rb_funcall(io, rb_intern("sync="), 1, Qtrue);
    if (!NIL_P(unread)) rb_funcallv(io, id_ungetbyte, 1, &unread);
    return io;
}

/* call-seq: call -> the socket; from now on the connection is the app's (Rack's full hijack) */
static VALUE hijack(VALUE self) {
    nb_request_t *request = nb_rack_request_get(self);
    VALUE env = request->env;
    if (request->response != NB_RESPONSE_NONE)
        rb_raise(rb_eIOError, "the response has begun: it is too late for rack.hijack");
    nb_handlers_stream(request);
    VALUE io = nb_rack_request_take_over(request);
    if (!OBJ_FROZEN(env)) rb_hash_aset(env, rb_str_new_cstr("rack.hijack_io"), io);
    return io;
}

/*
 * call-seq:
 *   call(headers)         -- sends 103 Early Hints (RFC 8297): env["rack.early_hints"]
 *   call(status, headers) -- sends another interim response: env["neverblock.interim"]
 */
static VALUE early_hints(int argc, VALUE *argv, VALUE self) {
    rb_check_arity(argc, 1, 2);
    VALUE status = argc == 2 ? argv[0] : INT2FIX(103);
    VALUE head = nb_interim_head(nb_rack_request_get(self)->server, status, argv[argc - 1]);
    nb_respond_interim(nb_rack_request_get(self), head);
    return Qnil;
}

/* call-seq: read_some(max) -> String, or nil at the body's end */
static VALUE read_some(VALUE self, VALUE max) {
    nb_request_t *request = nb_rack_request_get(self);
    long wanted = NUM2LONG(max);
    size_t limit = wanted <= 0 || wanted > NB_SCRATCH ? NB_SCRATCH : (size_t)wanted;
    if (request->response_framing == NB_BODY_RAW) return nb_request_read_raw(request, limit);
    return nb_request_read(request, limit, true);
}

/* call-seq: write(string) -> bytes; they gather, and leave before the next wait at the latest */
static VALUE write_m(VALUE self, VALUE string) {
    nb_request_t *request = nb_rack_request_get(self);
    StringValue(string);
    nb_body_chunk(request, string);
    return LONG2NUM(RSTRING_LEN(string));
}

/* call-seq: flush -> self */
static VALUE flush(VALUE self) {
    nb_output_flush(&nb_rack_request_get(self)->io);
    return self;
}

/* call-seq: open? -> whether the request still has its connection */
static VALUE open_p(VALUE self) {
    nb_request_t *request = rb_check_typeddata(self, &rack_request_type);
    return RBOOL(request && request->io.connection && !request->io.client_left);
}

/* call-seq: shut -- nothing more will be written: for upgraded connections */
static VALUE shut(VALUE self) {
    nb_request_t *request = nb_rack_request_get(self);
    nb_output_flush(&request->io);
    shutdown(request->io.connection->watch.fd, SHUT_WR);
    return self;
}

void nb_init_rack_request(void) {
    VALUE server = rb_path2class("NeverBlock::Server");
    id_for_fd = rb_intern("for_fd");
    id_ungetbyte = rb_intern("ungetbyte");
    cRequest = rb_define_class_under(server, "Request", rb_cObject);
    cEarlyHints = rb_define_class_under(server, "EarlyHints", rb_cObject);
    rb_undef_alloc_func(cRequest);
    rb_undef_alloc_func(cEarlyHints);
    rb_define_method(cEarlyHints, "call", early_hints, -1);
    rb_define_method(cRequest, "call", hijack, 0);
    rb_define_method(cRequest, "read_some", read_some, 1);
    rb_define_method(cRequest, "write", write_m, 1);
    rb_define_method(cRequest, "flush", flush, 0);
    rb_define_method(cRequest, "shut", shut, 0);
    rb_define_method(cRequest, "open?", open_p, 0);
}
