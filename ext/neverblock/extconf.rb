# frozen_string_literal: true

# Builds the extension. --disable-uring leaves io_uring out, --disable-linux every Linux header (as on macOS);
# --enable-sanitizer adds the address sanitizer, --enable-coverage counts lines and branches for gcov.
require "mkmf"

$CFLAGS << " -std=gnu11"
$warnflags = [$warnflags, "-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers"].compact.join(" ")

if enable_config("sanitizer", false)
  # Not stacks: Ruby leaves our frames by longjmp, which the sanitizer does not see.
  no_stack = ["--param=asan-stack=0", "-mllvm -asan-stack=0"].find { |flag| try_cflags(flag) }
  $CFLAGS << " -fsanitize=address #{no_stack} -fno-omit-frame-pointer -g -O1"
  $LDFLAGS << " -fsanitize=address"
end

if enable_config("coverage", false)
  # Without optimizations, which merge lines.
  $CFLAGS << " --coverage -O0"
  $LDFLAGS << " --coverage"
end

have_func("fdatasync", "unistd.h")
if enable_config("linux", true)
  have_header("sys/eventfd.h")
  epoll = have_header("sys/epoll.h")
  if epoll && enable_config("uring", true) && pkg_config("liburing")
    # liburing 2.3 and later
    found = have_func("io_uring_submit_and_get_events", "liburing.h") && have_header("liburing.h")
    $defs.push("-DHAVE_LIBURING") if found
  end
else
  $defs.push("-DNB_PORTABLE")
end

# All folders but the fuzzer's. The objects are made in one folder, so each file has a name of its own.
sources = Dir.glob("*/**/*.c", base: __dir__).reject { |path| path.include?("/fuzz/") }
sources -= Dir.glob("engine/backends/{epoll,uring}*.c", base: __dir__) unless $defs.include?("-DHAVE_SYS_EPOLL_H")
sources -= Dir.glob("engine/backends/uring*.c", base: __dir__) unless $defs.include?("-DHAVE_LIBURING")
$VPATH.concat(sources.map { |path| "$(srcdir)/#{File.dirname(path)}" }.uniq.sort)
$srcs = ["neverblock.c", *sources.map { |path| File.basename(path) }.sort]
$objs = $srcs.map { |name| name.sub(/c\z/, $OBJEXT) }
repeated = $srcs.tally.reject { |_, times| times == 1 }.keys
abort "more than one source file has this name: #{repeated.join(", ")}" unless repeated.empty?

create_makefile("neverblock/neverblock_ext")
