/*
 * What libpq knows of a connection, asked without a Ruby object for each answer.
 *
 *     NeverBlock::Libpq.load("/…/pg_ext.so")                         # => true: the functions below were found
 *     NeverBlock::Libpq.settings?(connection, ["TimeZone", "UTC"])   # => true: the server reports these values
 *     NeverBlock::Libpq.calm?(connection, ["TimeZone", "UTC"])       # => true: and it is in no transaction
 *     NeverBlock::Libpq.read?(result)                                # => true: its command tag is that of a read
 *     NeverBlock::Libpq.data?(result)                                # => true: or of a write of rows, or COMMIT
 *     NeverBlock::Libpq.tag(connection.make_empty_pgresult(PG::PGRES_COMMAND_OK), "BEGIN").cmd_status   # => "BEGIN"
 *
 * The functions are those of the very libpq that the gem pg has loaded: they are looked up in its extension and in what
 * that depends on. So neither headers nor a libpq are needed to build this, and there is no second one that does not
 * fit.
 */
#include <dlfcn.h>
#include <ruby.h>
#include <string.h>
#include "postgres.h"

typedef const char *parameter_status_t(const void *connection, const char *name);
typedef int transaction_status_t(const void *connection);
typedef void *connection_of_t(VALUE connection);
typedef void *result_of_t(VALUE result);
typedef char *command_tag_t(void *result);
#define IDLE 0 /* PQTRANS_IDLE, the same in all releases */
#define TAG 32 /* bytes of a command's tag; a result of libpq has room for 64 */

static parameter_status_t *parameter_status;
static transaction_status_t *transaction_status;
static connection_of_t *connection_of;
static result_of_t *result_of; /* of a result: it does not look at the class */
static VALUE *result_class;
static command_tag_t *command_tag;

/* A cast from an object's pointer to a function's is not of ISO C, but of POSIX. */
#define LOOK_UP(function, handle, name) (*(void **)&(function) = dlsym(handle, name))

static VALUE load(VALUE self, VALUE path) {
    void *handle = dlopen(StringValueCStr(path), RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) return Qfalse;
    LOOK_UP(connection_of, handle, "pg_get_pgconn");
    LOOK_UP(result_of, handle, "pgresult_get");
    result_class = dlsym(handle, "rb_cPGresult");
    LOOK_UP(parameter_status, handle, "PQparameterStatus");
    LOOK_UP(transaction_status, handle, "PQtransactionStatus");
    LOOK_UP(command_tag, handle, "PQcmdStatus");
    dlclose(handle); /* pg's extension stays */
    bool all = connection_of && result_of && result_class && parameter_status && transaction_status && command_tag;
    return all ? Qtrue : Qfalse;
}

static bool same(const char *value, VALUE expected) {
    if (!value || NIL_P(expected)) return !value && NIL_P(expected);
    size_t length = (size_t)RSTRING_LEN(expected);
    return !strncmp(value, RSTRING_PTR(expected), length) && !value[length];
}

/* Ruby ends most strings as C does, and looks for that at some length. */
static const char *c_string(VALUE *name) {
    const char *text = RSTRING_PTR(*name);
    return text[RSTRING_LEN(*name)] ? StringValueCStr(*name) : text;
}

/* settings: each name, frozen, and after it the value that is expected, nil where the server reports none. */
static bool all_same(void *of_libpq, VALUE settings) {
    Check_Type(settings, T_ARRAY);
    for (long i = 0; i + 1 < RARRAY_LEN(settings); i += 2) {
        VALUE name = RARRAY_AREF(settings, i), value = RARRAY_AREF(settings, i + 1);
        Check_Type(name, T_STRING);
        if (!NIL_P(value)) Check_Type(value, T_STRING);
        if (!same(parameter_status(of_libpq, c_string(&name)), value)) return false;
    }
    return true;
}

static VALUE settings_p(VALUE self, VALUE connection, VALUE settings) {
    return all_same(connection_of(connection), settings) ? Qtrue : Qfalse;
}

static VALUE calm_p(VALUE self, VALUE connection, VALUE settings) {
    void *of_libpq = connection_of(connection);
    return transaction_status(of_libpq) == IDLE && all_same(of_libpq, settings) ? Qtrue : Qfalse;
}

static void *checked_result(VALUE result) {
    if (!RTEST(rb_obj_is_kind_of(result, *result_class))) {
        rb_raise(rb_eTypeError, "%" PRIsVALUE " is not a PG::Result", rb_obj_class(result));
    }
    return result_of(result);
}

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static VALUE read_p(VALUE self, VALUE result) {
    const char *text = command_tag(checked_result(result));
    return begins(text, "SELECT") || begins(text, "SHOW") || begins(text, "EXPLAIN") ? Qtrue : Qfalse;
}

static VALUE data_p(VALUE self, VALUE result) {
    const char *text = command_tag(checked_result(result));
    return begins(text, "SELECT") || begins(text, "INSERT") || begins(text, "UPDATE") || begins(text, "DELETE") ||
                   begins(text, "MERGE") || begins(text, "COMMIT")
               ? Qtrue
               : Qfalse;
}

/* An answer that was made here gets its tag. libpq has no call for that, but hands out the text that a result has room
 * for. */
static VALUE tag(VALUE self, VALUE result, VALUE text) {
    StringValueCStr(text);
    if (RSTRING_LEN(text) >= TAG) {
        rb_raise(rb_eArgError, "a command's tag of %ld bytes: libpq takes fewer than %d", RSTRING_LEN(text), TAG);
    }
    memcpy(command_tag(checked_result(result)), RSTRING_PTR(text), (size_t)RSTRING_LEN(text) + 1);
    return result;
}

void nb_init_libpq(void) {
    VALUE module = rb_define_module_under(nb_mNeverBlock, "Libpq");
    rb_define_singleton_method(module, "load", load, 1);
    rb_define_singleton_method(module, "settings?", settings_p, 2);
    rb_define_singleton_method(module, "calm?", calm_p, 2);
    rb_define_singleton_method(module, "read?", read_p, 1);
    rb_define_singleton_method(module, "data?", data_p, 1);
    rb_define_singleton_method(module, "tag", tag, 2);
}
