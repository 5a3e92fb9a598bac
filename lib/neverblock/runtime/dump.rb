# frozen_string_literal: true

module NeverBlock
  # The tree of scopes and tasks as text, for {NeverBlock.dump}:
  #
  #   NeverBlock 0.2.0, process 4711: 1 loop
  #   loop of #<Thread:0x00007f run> on epoll: 2 tasks
  #     task "main", 3.2 s old, waits for #<NeverBlock::Scope>, spawned at app.rb:3
  #         app.rb:3:in `<main>'
  #       scope with 1 task
  #         task "rates", 3.1 s old, waits for the end of a sleep (57s left), spawned at app.rb:4
  #             app.rb:4:in `sleep'
  #
  # It takes no lock and asks no loop, so it also shows loops that are stuck.
  # @api private
  class Dump
    # Prints from a new thread, because a trap handler must not wait for an IO or a lock.
    # @return [Thread]
    def self.print_later(io)
      # it wakes no task, so it must not prevent the detection of deadlocks
      ThreadPool.start_idle("neverblock dump") { NeverBlock.dump(io) }
    end

    # Converts to UTF-8, because paths and method names may have incompatible encodings.
    # @return [String] the tree of all loops of this Ractor
    def text
      @lines = []
      loops = Loops.all.select { |scheduler| scheduler.looping? || scheduler.task_count.positive? }
      @lines << "NeverBlock #{VERSION}, process #{Process.pid}: #{count(loops.size, "loop")}"
      loops.each { |scheduler| add_loop(scheduler) }
      @lines.map { |line| line.dup.force_encoding(Encoding::UTF_8).scrub }.join("\n") << "\n"
    end

    private

    # Reads the tasks once, because the loop of another thread continues meanwhile.
    def add_loop(scheduler)
      tasks = scheduler.tasks
      @lines << "loop of #{scheduler.thread.inspect} on #{scheduler.engine_name}: #{count(tasks.size, "task")}"
      @scopes = tasks.to_h { |task| [task, scopes_of(task)] }
      @children = tasks.group_by(&:scope)
      held = @scopes.each_value.flat_map { |scopes| scopes }
      roots = @children.keys - held
      add_tree(roots.flat_map { |scope| @children[scope] })
    end

    # Uses a work list instead of recursion, because a tree may be deeper than the printing fiber's stack.
    def add_tree(tasks)
      left = tasks.reverse.map { |task| [task, 1] }
      while (one, depth = left.pop)
        inner = (Task === one) ? add_task(one, depth) : add_scope(one, depth)
        left.concat(inner.reverse.map { |other| [other, depth + 1] })
      end
    end

    # @return [Array<Scope>] the scopes that the task has opened, outermost first
    def scopes_of(task)
      scopes = []
      scope = task.inner_scope
      while scope && !scope.equal?(task.scope)
        scopes.unshift(scope)
        scope = scope.outer
      end
      scopes
    end

    # @return [Array<Scope>] the task's children in the tree
    def add_task(task, depth)
      waits = task.waits_for
      facts = ["task#{" #{task.name.inspect}" if task.name}", format("%.3g s old", task.age),
        waits ? "waits for #{waits}" : "runs", "spawned at #{task.spawned_at}"]
      add(depth, facts.join(", "))
      task.backtrace&.each { |line| add(depth + 2, line) }
      @scopes[task]
    end

    # @return [Array<Task>] the scope's children in the tree
    def add_scope(scope, depth)
      tasks = @children.fetch(scope, [])
      add(depth, "scope with #{count(tasks.size, "task")}")
      tasks
    end

    def add(depth, line)
      @lines << "#{"  " * depth}#{line}"
    end

    def count(number, word) = "#{number} #{word}#{"s" unless number == 1}"
  end
  private_constant :Dump
end
