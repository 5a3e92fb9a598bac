/*
 * The methods of Patches::Chdir (lib/neverblock/patches/chdir.rb). In C, so that Ruby's own warning of a nested change
 * names the program's line.
 */
#include "scheduler.h"

typedef struct { int count; VALUE *arguments; } call_t;

static VALUE call_super(VALUE argument) {
    call_t *call = (call_t *)argument;
    return rb_call_super(call->count, call->arguments);
}

static VALUE leave(VALUE scheduler) { return rb_funcall(scheduler, rb_intern("chdir_owner="), 1, Qnil); }

static VALUE change(int count, VALUE *arguments, VALUE self) {
    call_t call = {count, arguments};
    VALUE patch = rb_path2class("NeverBlock::Patches::Chdir");
    VALUE owned = rb_funcall(patch, rb_intern("enter"), 1, RBOOL(rb_block_given_p()));
    if (NIL_P(owned)) return call_super((VALUE)&call);
    return rb_ensure(call_super, (VALUE)&call, leave, owned);
}

/* call-seq: Scheduler.define_chdir(module, name) */
static VALUE s_define_chdir(VALUE klass, VALUE module, VALUE name) {
    rb_define_method_id(module, rb_to_id(name), change, -1);
    return Qnil;
}

void nb_init_chdir(void) { rb_define_singleton_method(nb_cScheduler, "define_chdir", s_define_chdir, 2); }
