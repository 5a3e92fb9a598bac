# frozen_string_literal: true

require "rbconfig"

module NeverBlock
  class CLI
    # Sets the stack sizes of fibers and the initial heap size. Ruby reads both from its environment when it boots, so
    # this process executes itself once more with the same arguments.
    #
    #   Boot.new(vm: 1 << 20, machine: 2 << 20).ensure   # may not return
    # @api private
    class Boot
      # Ruby's variables.
      STACKS = {vm: "RUBY_FIBER_VM_STACK_SIZE", machine: "RUBY_FIBER_MACHINE_STACK_SIZE"}.freeze
      # Each collection scans the stack of every waiting request, and a small app's heap is full after a few hundred
      # requests: with 500 waiting, the others waited for collections. These numbers of slots (of 40, 80 and 160 bytes)
      # last for some twenty thousand requests. With -w Ruby would print a warning for each variable, so they are not
      # set then.
      HEAP = {
        "RUBY_GC_HEAP_0_INIT_SLOTS" => "320000",
        "RUBY_GC_HEAP_1_INIT_SLOTS" => "48000",
        "RUBY_GC_HEAP_2_INIT_SLOTS" => "48000"
      }.freeze
      # Says that the process has executed itself, and names the variables that were added.
      GUARD = "NEVERBLOCK_BOOT"

      # @param vm [Integer, nil] bytes; nil: Ruby's own
      # @param machine [Integer, nil]
      # @param small [Boolean] whether the app's heap is small: a Rails app's heap has that room anyway, and would waste
      #   3 to 9 MB
      # @param env [Hash] the environment
      # @param sizes [Hash] the stack sizes of this Ruby
      # @param command_line [Array<String>, nil] this process's
      def initialize(vm:, machine:, small: true, env: ENV, sizes: RubyVM::DEFAULT_PARAMS,
        command_line: Boot.command_line)
        @wanted = {vm:, machine:}
        @heap = (small && !$VERBOSE) ? HEAP : {}
        @env = env
        @sizes = sizes
        @command_line = command_line
      end

      # Returns in the process with the configured stacks; without configured stacks it returns at once.
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

      # @return [Hash{String=>String}] the variables for stacks that are smaller than configured
      def needed
        @needed ||= STACKS.filter_map { |stack, variable|
          size = @wanted[stack]
          [variable, size.to_s] if size && !@env[variable] && @sizes.fetch(:"fiber_#{stack}_stack_size") < size
        }.to_h
      end

      # @return [Hash{String=>String}] variables to add to the new process's environment
      def additions
        variables = {**needed, **@heap.reject { |variable, _| @env[variable] }}
        {**variables, GUARD => variables.keys.join(" ")}
      end

      # @return [Array<String>] this process's own command
      def command
        program, *arguments = @command_line
        return [RbConfig.ruby, *arguments] if program && File.basename(program).start_with?("ruby")
        # The title was changed, as by `bundle exec`, or this system does not tell the command line.
        jit = ["--yjit"] if defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
        [RbConfig.ruby, *jit, $PROGRAM_NAME, *ARGV]
      end

      # @return [Array<String>, nil] the kernel's record, with the options of the interpreter
      def self.command_line
        File.read("/proc/self/cmdline").split("\0")
      rescue SystemCallError
        nil
      end

      private

      # Deletes the variables: programs that the app starts should not inherit them.
      def clean
        @env.delete(GUARD).split.each { |variable| @env.delete(variable) }
      end
    end
  end
end
