/*
 * How a block was left. Ruby code can't see that: an `ensure` looks the same after `return`, `throw` and Thread#kill.
 *
 *     NeverBlock::Unwinding.watch(place, connection) { |connection| … }   # => the block's value
 *     place.unwound   # => RAISE, THROW or KILL; unchanged if the block has ended, or was left by break or return
 *
 * The record's @unwound is set before the unwinding goes on, so that an `ensure` around the call can read it.
 */
#include "runtime.h"

/* Ruby's enum ruby_tag_type, which rb_protect tells its caller. The numbers are those of Ruby 1.8 and all since. */
enum { RETURN = 1, BREAK = 2, RAISE = 6, THROW = 7, KILL = 8 };

static ID id_unwound;

/* call-seq: watch(record, argument) { |argument| } -> the block's value */
static VALUE watch(VALUE module, VALUE record, VALUE argument) {
    int tag = 0;
    rb_need_block();
    VALUE value = rb_protect(rb_yield, argument, &tag);
    if (!tag) return value;
    /* No Ruby code may run here: it would replace what is under way. */
    if (tag != RETURN && tag != BREAK) rb_ivar_set(record, id_unwound, INT2FIX(tag));
    rb_jump_tag(tag);
}

void nb_init_unwinding(void) {
    VALUE module = rb_define_module_under(nb_mNeverBlock, "Unwinding");
    id_unwound = rb_intern("@unwound");
    rb_define_const(module, "RAISE", INT2FIX(RAISE));
    rb_define_const(module, "THROW", INT2FIX(THROW));
    rb_define_const(module, "KILL", INT2FIX(KILL));
    rb_define_singleton_method(module, "watch", watch, 2);
}
