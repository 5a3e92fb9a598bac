# frozen_string_literal: true

# Builds the extension. --disable-uring leaves io_uring out, --disable-linux every Linux header (as on macOS);
# --enable-sanitizer adds the address sanitizer.
require "mkmf"

$CFLAGS << " -std=gnu11"
$warnflags = [$warnflags, "-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers"].compact.join(" ")

if enable_config("sanitizer", false)
  # Not stacks: Ruby leaves frames of ours by longjmp, unseen by the sanitizer, which then takes them for alive.
  no_stack = ["--param=asan-stack=0", "-mllvm -asan-stack=0"].find { |flag| try_cflags(flag) }
  $CFLAGS << " -fsanitize=address #{no_stack} -fno-omit-frame-pointer -g -O1"
  $LDFLAGS << " -fsanitize=address"
end

have_func("fdatasync", "unistd.h")
if enable_config("linux", true)
  have_header("sys/eventfd.h")
  epoll = have_header("sys/epoll.h")
  if epoll && enable_config("uring", true) && pkg_config("liburing")
    # liburing 2.3 and later
    have_func("io_uring_submit_and_get_events", "liburing.h") && have_header("liburing.h") && $defs.push("-DHAVE_LIBURING")
  end
else
  $defs.push("-DNB_PORTABLE")
end

folders = %w[engine scheduler http postgres]
sources = folders.flat_map { |folder| Dir[File.join(__dir__, folder, "*.c")] }.map { |path| File.basename(path) }
sources -= ["epoll.c", "uring.c", "uring_operations.c"] unless $defs.include?("-DHAVE_SYS_EPOLL_H")
sources -= ["uring.c", "uring_operations.c"] unless $defs.include?("-DHAVE_LIBURING")
$VPATH.concat(folders.map { |folder| "$(srcdir)/#{folder}" })
$srcs = ["neverblock.c", *sources.sort]
$objs = $srcs.map { |name| name.sub(/c\z/, $OBJEXT) }

create_makefile("neverblock/neverblock_ext")
