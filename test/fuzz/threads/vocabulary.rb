# frozen_string_literal: true

module NeverBlockFuzz
  # The words of which programs are made. A new word is a line of code here.
  #
  #   Vocabulary::WORDS[:read].codes.first      # => "%{it}.readpartial(5)"
  #
  # `%{it}` is the resource, `%{gate}` what releases its child process, `%{other}` another IO, `%{large}` a long limit.
  module Vocabulary
    # weight: how often it is chosen. on: the kind of resource, nil for none. by: the strand, :reader or :writer if only
    # one strand may do that with the resource, so that the outcome is defined. blocks: whether it may wait for another
    # strand. timed: whether time alone ends it, so that the next step waits for it. frees: whether it may end waits of
    # others. makes: the kind of a new resource. alone: whether all strands must be on one loop.
    Word = Struct.new(:name, :weight, :codes, :on, :by, :blocks, :timed, :frees, :makes, :alone)

    # A block around later steps: the line before them, and what is after it.
    Block = Struct.new(:name, :weight, :open, :on, :makes, :close)

    LARGE = %w[1e9 1e20 2**80 10**12 Float::INFINITY].freeze
    MUCH = '"x" * 200_000'
    private_constant :MUCH

    WORDS = [
      # ---- new resources ----
      [:pipe, 5, ["%{r}, %{w} = IO.pipe; :pipe"], {makes: :pipe}],
      [:pair, 5, ["%{r}, %{w} = UNIXSocket.pair; :pair"], {makes: :pair}],
      [:tcp, 2, ["TCPServer.open('127.0.0.1', 0) { |server| %{r} = TCPSocket.new('127.0.0.1', server.addr[1]); %{w} = server.accept }; :tcp"], {makes: :pair}],
      [:server, 2, ["%{r} = TCPServer.new('127.0.0.1', 0); :server"], {makes: :server}],
      [:popen, 3, ['%{r} = IO.popen("cat", "r+"); :popen', '%{r} = IO.popen(["sh", "-c", "read x; echo $x; exit 3"], "r+"); :popen'], {makes: :process_io}],
      [:open, 2, ['%{r} = File.open(path("file"), "a+"); :file'], {makes: :file}],
      [:spawn, 3, ['gate, %{w} = IO.pipe; %{r} = spawn("read x; exit 3", in: gate); gate.close; :started'], {makes: :child}],
      [:run, 4, ['%{r}, %{w} = IO.pipe; system("read x; exit 7", in: %{r})',
        '%{r}, %{w} = IO.pipe; [IO.popen(["sh", "-c", "read x; echo out; exit 4"], in: %{r}, &:read), $?.exitstatus]',
        '%{r}, %{w} = IO.pipe; Process.wait(spawn("read x; exit 5", in: %{r})) && $?.exitstatus'], {makes: :gate, blocks: true}],
      # ---- reading ----
      [:read, 12, ["%{it}.readpartial(5)", "%{it}.read(3)", "%{it}.gets", "%{it}.readline", "%{it}.getc", "%{it}.readbyte", "%{it}.sysread(5)", "%{it}.read", "%{it}.eof?",
        "%{it}.each_line.first(1)", "%{it}.readlines", "%{it}.read(200_000)", "%{it}.readpartial(100_000)", 'IO.copy_stream(%{it}, path("copy"), 3)',
        "Timeout.timeout(%{large}) { %{it}.readpartial(5) }", "Thread.new { %{it}.readpartial(5) }.value"], {on: :input, by: :reader, blocks: true, frees: true}],
      [:wait_readable, 4, ["%{it}.wait_readable && :ready", "%{it}.wait_readable(%{large}) && :ready", "IO.select([%{it}]) && :ready",
        "IO.select([%{it}, %{other}]) && :ready", "%{it}.wait(IO::READABLE, nil) && :ready"], {on: :input, by: :reader, blocks: true}],
      [:read_now, 2, ["%{it}.read_nonblock(5, exception: false)", "%{it}.read_nonblock(5)", "%{it}.wait_readable(0) && :ready",
        "IO.select([%{it}], nil, nil, 0) && :ready", "%{it}.nread", "%{it}.ungetc('u')"], {on: :input, by: :reader}],
      [:read_timed, 3, ["Timeout.timeout(0.02) { %{it}.readpartial(5) }",
        "%{it}.wait_readable(0.02) && :ready", "IO.select([%{it}], nil, nil, 0.02) && :ready"], {on: :input, by: :reader, timed: true}],
      [:receive, 3, ["%{it}.recv(5)", "%{it}.recvmsg.first", "%{it}.recvfrom(5).first", "%{it}.recv_nonblock(5, exception: false)"], {on: :socket, by: :reader, blocks: true}],
      # ---- writing ----
      [:write, 10, ['%{it}.write("abc")', '%{it} << "line\n"; :done', '%{it}.puts("line")', '%{it}.syswrite("abc")', '%{it}.print("a", "b")', '%{it}.write("a", "b")',
        '%{it}.write_nonblock("abc", exception: false)', "%{it}.flush; :done"], {on: :output, by: :writer, frees: true}],
      [:write_much, 4, ["%{it}.write(#{MUCH})", "%{it}.write(#{MUCH})", "Timeout.timeout(%{large}) { %{it}.write(#{MUCH}) }", '100.times { %{it}.write("x" * 2000) }'],
        {on: :output, by: :writer, blocks: true, frees: true}],
      [:wait_writable, 2, ["%{it}.wait_writable && :ready", "IO.select(nil, [%{it}]) && :ready"], {on: :output, by: :writer, blocks: true}],
      # Plain Ruby 3.3 ignores the timeout in readpartial, and in sockets, which may block in read(2).
      [:read_late, 2, ["%{it}.timeout = 0.02; begin %{it}.getc ensure %{it}.timeout = nil end", "%{it}.timeout = 0.02; begin %{it}.gets ensure %{it}.timeout = nil end"],
        {on: :pipe_input, by: :reader, timed: true}],
      [:write_late, 2, ["%{it}.timeout = 0.02; begin %{it}.write(#{MUCH}) ensure %{it}.timeout = nil end"], {on: :pipe_output, by: :writer, timed: true}],
      [:write_timed, 1, ["Timeout.timeout(0.02) { %{it}.write(#{MUCH}) }"], {on: :output, by: :writer, timed: true}],
      [:send, 2, ['%{it}.send("abc", 0)', '%{it}.sendmsg("abc")', "%{it}.shutdown(:WR)", "%{it}.shutdown(:RD)"], {on: :socket, by: :writer, frees: true}],
      # ---- closing ----
      [:close, 6, ["%{it}.close", "%{it}.close", "Thread.new { %{it}.close }.value"], {on: :io, frees: true}],
      [:close_half, 7, ["%{it}.close_read", "%{it}.close_write"], {on: :io, frees: true}],
      [:reopen, 2, ["%{it}.reopen(File::NULL); :done", "%{it}.reopen(%{other}); :done", "%{it}.reopen(%{it}); :done"], {on: :io, frees: true}],
      [:duplicate, 1, ["%{it}.dup.close", "%{it}.closed?", "%{it}.fsync", "%{it}.sync"], {on: :io}],
      # ---- servers ----
      [:accept, 5, ["%{it}.accept.close", "%{it}.accept_nonblock.close", "%{it}.wait_readable && :ready"], {on: :server, by: :reader, blocks: true}],
      [:connect, 4, ['TCPSocket.new("127.0.0.1", %{it}.addr[1]).close', 'TCPSocket.open("127.0.0.1", %{it}.addr[1]) { :connected }'], {on: :server, frees: true}],
      # ---- files ----
      [:file, 4, ['%{it}.write("abc")', "%{it}.rewind", "%{it}.read", "%{it}.pread(2, 0)", '%{it}.pwrite("z", 0)', "%{it}.truncate(1)", "%{it}.size", "%{it}.pos", "%{it}.fsync"], {on: :file}],
      [:flock, 4, ["%{it}.flock(File::LOCK_EX)", "%{it}.flock(File::LOCK_SH)", "%{it}.flock(File::LOCK_EX | File::LOCK_NB)"], {on: :file, by: :reader, blocks: true}],
      [:unlock_file, 3, ["%{it}.flock(File::LOCK_UN)", "%{it}.close"], {on: :file, frees: true}],
      # ---- processes ----
      [:wait_child, 6, ["Process.wait(%{it}) && $?.exitstatus", "Process.wait2(%{it}).last", "Process::Status.wait(%{it})", "Process.detach(%{it}).value",
        "Process.wait(%{it}, Process::WNOHANG) && $?.exitstatus", "Timeout.timeout(%{large}) { Process.wait(%{it}) && $?.exitstatus }"], {on: :child, by: :reader, blocks: true}],
      [:wait_child_timed, 1, ["Timeout.timeout(0.02) { Process.wait(%{it}) && $?.exitstatus }"], {on: :child, by: :reader, timed: true}],
      [:release, 8, ['%{gate}.puts("go")', "%{gate}.close", "Process.kill(:TERM, %{it}) && :sent", "Process.kill(0, %{it})"], {on: :child, frees: true}],
      [:let_go, 8, ['%{it}.puts("go")', "%{it}.close"], {on: :gate, frees: true}],
      [:command, 5, ['system("exit 7")', 'system("true")', "`echo hi; exit 3`", "`exit 4`; $?.exitstatus", 'system("exit 5", exception: true)', 'system("no-such-program-1")',
        "`no-such-program-1`", "Process.wait(fork { exit!(6) }) && $?.exitstatus", 'Process.wait(spawn("kill -9 $$")) && $?', "Process.wait(12345678)"], {timed: true}],
      [:last_status, 4, ["$? && [$?.exitstatus, $?.termsig]", "Process.last_status"], {}],
      # ---- queues ----
      [:push, 6, ["%{it}.push(:item); :pushed", "%{it} << 1; :pushed", "%{it}.close; :closed", "%{it}.clear; :cleared"], {on: :queue, frees: true}],
      [:pop, 6, ["%{it}.pop", "%{it}.shift", "%{it}.pop(timeout: %{large})", "Timeout.timeout(%{large}) { %{it}.pop }", "Thread.new { %{it}.pop }.value"], {on: :queue, blocks: true}],
      [:push_sized, 5, ["%{it}.push(:item); :pushed", "%{it}.push(:item, timeout: %{large}) && :pushed"], {on: :sized, blocks: true, frees: true}],
      [:pop_sized, 5, ["%{it}.pop", "%{it}.pop(timeout: %{large})"], {on: :sized, blocks: true, frees: true}],
      [:queue_now, 2, ["%{it}.pop(true)", "%{it}.pop(timeout: 0)", "%{it}.size", "%{it}.num_waiting", "%{it}.closed?", "%{it}.pop(timeout: -1)", "%{it}.pop(true, timeout: 1)"], {on: :queue}],
      [:sized_now, 2, ["%{it}.push(1, true); :pushed", "%{it}.pop(true)", "%{it}.max = 3", "%{it}.close; :closed", "%{it}.clear; :cleared", "%{it}.num_waiting"], {on: :sized, frees: true}],
      [:queue_timed, 2, ["%{it}.pop(timeout: 0.02)", "Timeout.timeout(0.02) { %{it}.pop }"], {on: :queue, timed: true}],
      [:sized_timed, 1, ["%{it}.push(:item, timeout: 0.02) && :pushed", "%{it}.pop(timeout: 0.02)"], {on: :sized, timed: true}],
      # ---- locks ----
      [:lock, 5, ["%{it}.lock; :locked", "%{it}.synchronize { :inside }", "Timeout.timeout(%{large}) { %{it}.synchronize { :inside } }"], {on: :mutex, blocks: true, frees: true}],
      [:unlock, 4, ["%{it}.unlock; :unlocked", "%{it}.try_lock", "%{it}.locked?", "%{it}.owned?"], {on: :mutex, frees: true}],
      [:lock_timed, 1, ["Timeout.timeout(0.02) { %{it}.synchronize { :inside } }", "%{it}.sleep(0.02)"], {on: :mutex, timed: true}],
      [:wait_condition, 4, ["m1.synchronize { %{it}.wait(m1); :woken }", "m1.synchronize { %{it}.wait(m1, %{large}); :woken }"], {on: :condition, blocks: true}],
      [:wait_condition_timed, 1, ["m1.synchronize { %{it}.wait(m1, 0.02) && :woken }"], {on: :condition, timed: true}],
      [:signal, 4, ["%{it}.signal; :signalled", "%{it}.broadcast; :broadcast", "m1.synchronize { %{it}.signal; :signalled }"], {on: :condition, blocks: true, frees: true}],
      [:monitor, 4, ["%{it}.enter; :entered", "%{it}.synchronize { %{it}.synchronize { :inside } }", "%{it}.try_enter"], {on: :monitor, blocks: true}],
      [:leave_monitor, 4, ["%{it}.exit; :left", "%{it}.mon_owned?", "%{it}.mon_locked?"], {on: :monitor, frees: true}],
      # ---- time ----
      [:sleep, 2, ["sleep(0.01) && :slept", "Timeout.timeout(0.02) { sleep }", 'Timeout.timeout(0.02, ArgumentError, "why") { sleep }', "IO.select(nil, nil, nil, 0.01)",
        "Timeout.timeout(0.02) { Timeout.timeout(9) { sleep } }", "Timeout.timeout(9) { Timeout.timeout(0.02) { sleep } }"], {timed: true}],
      [:limit, 4, ["Timeout.timeout(%{large}) { :quick }", "Timeout.timeout(0) { :quick }", "Timeout.timeout(nil) { :quick }", "Timeout.timeout(Float::NAN) { :quick }",
        'Timeout.timeout("1") { :quick }', "Timeout.timeout(-1) { :quick }", "sleep(-1)", 'sleep("1")', "sleep(0)", "Thread.pass", "GC.start"], {}],
      # ---- other strands ----
      [:raise, 4, ['raise_in(%{it}, RuntimeError.new("boom")); :raised', 'raise_in(%{it}, ArgumentError.new("bang")); :raised'], {on: :strand, by: :another, frees: true, alone: true}],
      [:kill, 1, ["kill(%{it}); :killed"], {on: :strand, by: :another, frees: true, alone: true}],
      [:strand, 2, ["%{it}.alive?", "%{it}.join(0) && :ended", "%{it}.status"], {on: :strand, by: :another}],
      [:join_timed, 1, ["%{it}.join(0.02) && :ended"], {on: :strand, by: :another, timed: true}],
      [:signal_process, 2, ["trap(:USR1) { %{it} << :signal unless %{it}.closed? }; Process.kill(:USR1, Process.pid) && :sent"], {on: :queue, frees: true}],
      # ---- the process ----
      [:folder, 3, ["Dir.pwd", "Dir.chdir('/tmp')", "Dir.chdir('/usr') { Dir.pwd }"], {}]
    ].to_h { |name, weight, codes, facts| [name, Word.new(name, weight, codes, *facts.values_at(:on, :by, :blocks, :timed, :frees, :makes, :alone))] }.freeze

    BLOCKS = [
      [:inside_folder, 3, "Dir.chdir('/usr') do"],
      [:inside_lock, 3, "%{it}.synchronize do", :mutex],
      [:inside_monitor, 2, "%{it}.synchronize do", :monitor],
      [:inside_timeout, 3, "Timeout.timeout(%{large}) do"],
      [:masked, 3, "Thread.handle_interrupt(RuntimeError => :never) do"],
      [:masked_blocking, 1, "Thread.handle_interrupt(RuntimeError => :on_blocking) do"],
      [:ensured, 2, "begin", :queue, nil, "ensure; %{it} << :ensured; end"],
      [:inside_popen, 3, 'IO.popen("cat", "r+") do |io| %{r} = io', nil, :process_io],
      [:inside_popen_write, 2, 'IO.popen("read x; sleep 1000", "w") do |io| %{r} = io', nil, :process_input],
      [:inside_file, 1, 'File.open(path("file"), "a+") do |io| %{r} = io', nil, :file],
      [:inside_pipe, 2, "IO.pipe do |*ends| %{r}, %{w} = ends", nil, :pipe],
      [:inside_pair, 2, "UNIXSocket.pair do |ends| %{r}, %{w} = ends", nil, :pair]
    ].to_h { |name, weight, open, on, makes, close| [name, Block.new(name, weight, open, on, makes, close || "end")] }.freeze
  end
end
