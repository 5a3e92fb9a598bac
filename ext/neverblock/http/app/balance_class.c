/*
 * NeverBlock::Server::Balance: the Ruby object of transport/balance.c. It is made before the fork of the processes
 * that share it.
 *
 *     balance = Balance.new
 *     entry = balance.enter      # for a process that accepts, …
 *     balance.leave(entry)       # … until it has ended
 */
#include "app.h"

static void balance_free(void *pointer) { nb_balance_free(pointer); }

static const rb_data_type_t balance_type = {
    .wrap_struct_name = "NeverBlock::Server::Balance", .function = {.dfree = balance_free},
};

nb_balance_t *nb_balance_get(VALUE self) { return rb_check_typeddata(self, &balance_type); }

static VALUE balance_alloc(VALUE klass) {
    nb_balance_t *balance = nb_balance_new();
    if (!balance) rb_sys_fail("memory that processes share");
    return TypedData_Wrap_Struct(klass, &balance_type, balance);
}

/* call-seq: enter -> Integer or nil; nil: all entries are in use, and the process takes no part */
static VALUE balance_enter(VALUE self) {
    int entry = nb_balance_enter(nb_balance_get(self));
    return entry == NB_NO_ENTRY ? Qnil : INT2FIX(entry);
}

/* call-seq: leave(entry) -> self; its process has ended */
static VALUE balance_leave(VALUE self, VALUE entry) {
    if (!NIL_P(entry)) nb_balance_leave(nb_balance_get(self), NUM2INT(entry));
    return self;
}

void nb_init_balance(VALUE server) {
    VALUE balance = rb_define_class_under(server, "Balance", rb_cObject);
    rb_define_alloc_func(balance, balance_alloc);
    rb_define_method(balance, "enter", balance_enter, 0);
    rb_define_method(balance, "leave", balance_leave, 1);
}
