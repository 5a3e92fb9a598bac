/*
 * What libpq knows of a connection, asked without a Ruby object for each answer.
 *
 *     NeverBlock::Libpq.load("/…/pg_ext.so")                          # => true: the functions below were found
 *     NeverBlock::Libpq.settings?(connection, ["TimeZone", "UTC"])    # => true: the server reports these values
 *     NeverBlock::Libpq.calm?(connection, ["TimeZone", "UTC"])        # => true: and the connection is in no transaction
 *
 * The functions are those of the very libpq that the gem pg has loaded: they are looked up in its extension and in what that
 * depends on. So neither headers nor a libpq are needed to build this, and there is no second one that does not fit.
 */
#include <dlfcn.h>
#include <ruby.h>
#include <string.h>
#include "postgres.h"

typedef const char *parameter_status_t(const void *connection, const char *name);
typedef int transaction_status_t(const void *connection);
typedef void *connection_of_t(VALUE connection);
#define IDLE 0 /* PQTRANS_IDLE, the same in all releases */

static parameter_status_t *parameter_status;
static transaction_status_t *transaction_status;
static connection_of_t *connection_of;

/* A cast from an object's pointer to a function's is not of ISO C, but of POSIX. */
#define LOOK_UP(function, handle, name) (*(void **)&(function) = dlsym(handle, name))

static VALUE load(VALUE self, VALUE path) {
    void *handle = dlopen(StringValueCStr(path), RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) return Qfalse;
    LOOK_UP(connection_of, handle, "pg_get_pgconn");
    LOOK_UP(parameter_status, handle, "PQparameterStatus");
    LOOK_UP(transaction_status, handle, "PQtransactionStatus");
    dlclose(handle); /* pg's extension stays */
    return connection_of && parameter_status && transaction_status ? Qtrue : Qfalse;
}

static bool same(const char *value, VALUE expected) {
    if (!value || NIL_P(expected)) return !value && NIL_P(expected);
    size_t length = strlen(value);
    return length == (size_t)RSTRING_LEN(expected) && !memcmp(value, RSTRING_PTR(expected), length);
}

/* settings: each name, frozen, and after it the value that is expected, nil where the server reports none. */
static bool all_same(void *of_libpq, VALUE settings) {
    Check_Type(settings, T_ARRAY);
    for (long i = 0; i + 1 < RARRAY_LEN(settings); i += 2) {
        VALUE name = RARRAY_AREF(settings, i), value = RARRAY_AREF(settings, i + 1);
        Check_Type(name, T_STRING);
        if (!NIL_P(value)) Check_Type(value, T_STRING);
        if (!same(parameter_status(of_libpq, StringValueCStr(name)), value)) return false;
    }
    return true;
}

static VALUE settings_p(VALUE self, VALUE connection, VALUE settings) { return all_same(connection_of(connection), settings) ? Qtrue : Qfalse; }

static VALUE calm_p(VALUE self, VALUE connection, VALUE settings) {
    void *of_libpq = connection_of(connection);
    return transaction_status(of_libpq) == IDLE && all_same(of_libpq, settings) ? Qtrue : Qfalse;
}

void nb_init_libpq(void) {
    VALUE module = rb_define_module_under(nb_mNeverBlock, "Libpq");
    rb_define_singleton_method(module, "load", load, 1);
    rb_define_singleton_method(module, "settings?", settings_p, 2);
    rb_define_singleton_method(module, "calm?", calm_p, 2);
}
