# frozen_string_literal: true

module NeverBlockFuzz
  # What a program has left: its variables, descriptors and child processes, in words that threads and fibers share.
  #
  #   account = Account.new(binding)      # before its first step
  #   account.leftovers(host)             # => {"r1" => "#<IO closed>", …}
  class Account
    class << self
      # @param value [Object]
      # @return [String] without numbers of processes, descriptors and addresses
      def show(value)
        case value
        when Exception then "#{value.class}: #{plain(value.message)}"
        when String then (value.bytesize > 60) ? "#{value.bytesize} bytes, hash #{value.sum}" : value.inspect
        when Array then "[#{value.map { |item| show(item) }.join(", ")}]"
        when Process::Status then plain(value.to_s)
        when IO then "#<#{value.class} #{value.closed? ? "closed" : "open"}>"
        when Thread, NeverBlock::Task then "#<strand>"
        when nil, true, false, Symbol, Numeric then value.inspect
        else "#<#{value.class}>"
        end
      end

      private

      def plain(text)
        text.gsub(/0x\h+/, "0x…").gsub(/(pid|fd|fd:|port) ?\d+/, "\\1 …").gsub(%r{/\S*neverblock-fuzz[^/]*}, "…").gsub(/#<(Thread|NeverBlock::Task)[^>]*>/, "#<strand>")
      end
    end

    # @param program [Binding]
    def initialize(program)
      @program = program
      @before = descriptors
    end

    # @return [Array<Thread::Mutex, Monitor>]
    def locks
      values = @program.local_variables.map { |name| @program.local_variable_get(name) }
      values.select { |value| value.is_a?(Thread::Mutex) || value.is_a?(Monitor) }
    end

    # @return [Hash{String=>String}]
    def leftovers
      names = @program.local_variables.sort
      facts = names.to_h { |name| [name.to_s, state(@program.local_variable_get(name))] }.compact
      facts.merge("descriptors" => descriptors_left, "children" => children)
    end

    private

    def state(value)
      case value
      when Thread::SizedQueue, Thread::Queue then "size #{value.size}, #{value.num_waiting} waiting, #{value.closed? ? "closed" : "open"}"
      when Thread::Mutex then value.locked? ? "locked" : "unlocked"
      when Monitor then value.mon_locked? ? "locked" : "unlocked"
      when Thread, NeverBlock::Task then value.alive? ? "alive" : "ended"
      when IO, nil then Account.show(value)
      end
    end

    # Ruby and NeverBlock have descriptors of their own: those without a name in the file system, except pipes and sockets.
    def descriptors
      named = Dir.children("/proc/self/fd").filter_map do |number|
        [number, File.readlink("/proc/self/fd/#{number}")]
      rescue Errno::ENOENT
        nil # the descriptor that reads the folder
      end
      named.reject { |_, name| name.start_with?("anon_inode:", "/proc/") }.to_h
    end

    def descriptors_left
      left = descriptors.reject { |number, name| @before[number] == name }.values
      left.map { |name| name[/\A(pipe|socket)(?=:)/] || File.basename(name) }.tally.sort.map { |pair| pair.join(" ") }.join(", ")
    end

    # Each child process, in the end.
    def children
      ended = []
      while (found = Process.wait2(-1, Process::WNOHANG))
        ended << Account.show(found.last)
      end
      [*ended.sort, "and others"].join(", ")
    rescue Errno::ECHILD
      ended.sort.join(", ")
    end
  end
end
