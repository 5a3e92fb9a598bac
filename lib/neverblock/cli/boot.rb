# frozen_string_literal: true

require "rbconfig"

module NeverBlock
  class CLI
    # Gives fibers the stacks that are asked for, and the heap some room. Ruby reads both from its environment when it
    # boots and never again, so this process starts itself once more, as the same process with the same arguments.
    #
    #   Boot.new(vm: 1 << 20, machine: 2 << 20).ensure   # may not return
    # @api private
    class Boot
      # What Ruby reads.
      STACKS = {vm: "RUBY_FIBER_VM_STACK_SIZE", machine: "RUBY_FIBER_MACHINE_STACK_SIZE"}.freeze
      # Each collection scans the stack of every request that waits. A small app's heap is full after a few hundred requests:
      # with 500 waiting, collections were what the others waited for. The sizes are of slots of 40, 80 and 160 bytes, as
      # many as let some twenty thousand requests pass. With -w Ruby would announce each of them: who looks for warnings does
      # without.
      HEAP = {"RUBY_GC_HEAP_0_INIT_SLOTS" => "320000", "RUBY_GC_HEAP_1_INIT_SLOTS" => "48000", "RUBY_GC_HEAP_2_INIT_SLOTS" => "48000"}.freeze
      # Says that it has been done, and what was not in the environment before.
      GUARD = "NEVERBLOCK_BOOT"

      # @param vm [Integer, nil] bytes; nil: Ruby's own
      # @param machine [Integer, nil]
      # @param small [Boolean] whether the app's own heap is: a Rails app's has that room by itself, and what it gets more is 3 to 9 MB that lie idle
      # @param env [Hash] the environment
      # @param sizes [Hash] what this Ruby has
      # @param command_line [Array<String>, nil] this process's
      def initialize(vm:, machine:, small: true, env: ENV, sizes: RubyVM::DEFAULT_PARAMS, command_line: Boot.command_line)
        @wanted = {vm:, machine:}
        @heap = (small && !$VERBOSE) ? HEAP : {}
        @env = env
        @sizes = sizes
        @command_line = command_line
      end

      # Goes on in the process that has the stacks; where none are asked for, here.
      # @return [void]
      def ensure
        if @env[GUARD]
          clean
        elsif needed.any?
          Process.exec(additions, *command)
        end
      rescue SystemCallError => error
        warn "neverblock: stack_depth has no effect: Ruby can't be started again (#{error.message})"
      end

      # @return [Hash{String=>String}] the variables for stacks that are missing
      def needed
        @needed ||= STACKS.filter_map { |stack, variable|
          size = @wanted[stack]
          [variable, size.to_s] if size && !@env[variable] && @sizes.fetch(:"fiber_#{stack}_stack_size") < size
        }.to_h
      end

      # @return [Hash{String=>String}] what the new process's environment has more
      def additions
        variables = {**needed, **@heap.reject { |variable, _| @env[variable] }}
        {**variables, GUARD => variables.keys.join(" ")}
      end

      # @return [Array<String>] this process's own command
      def command
        program, *arguments = @command_line
        return [RbConfig.ruby, *arguments] if program && File.basename(program).start_with?("ruby")
        # A title was set, as `bundle exec` does, or this system does not tell.
        jit = ["--yjit"] if defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
        [RbConfig.ruby, *jit, $PROGRAM_NAME, *ARGV]
      end

      # @return [Array<String>, nil] as the kernel knows it: interpreter options and all
      def self.command_line
        File.read("/proc/self/cmdline").split("\0")
      rescue SystemCallError
        nil
      end

      private

      # Programs that the app starts shall not find them.
      def clean
        @env.delete(GUARD).split.each { |variable| @env.delete(variable) }
      end
    end
  end
end
