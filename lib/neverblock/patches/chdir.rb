# frozen_string_literal: true

module NeverBlock
  module Patches
    # Refuses to change the directory of the process during another task's block of Dir.chdir. Ruby refuses that to
    # threads. Tasks share a thread, so each would work in the other's directory, and the process would stay there.
    #
    #   scope.spawn { Dir.chdir("/srv/one") { system("make") } }
    #   scope.spawn { Dir.chdir("/srv/two") { system("make") } }     # RuntimeError
    #   system("make", chdir: "/srv/two")                            # has no block, and needs none
    module Chdir
      def self.targets = {::Dir.singleton_class => Changes, ::Dir => OfDir}

      def self.needed? = true

      # Dir.chdir, Dir.fchdir
      module Changes
        def chdir(*, &block) = Chdir.change(block) { super }

        def fchdir(_, &block) = Chdir.change(block) { super }
      end

      # Dir#chdir
      module OfDir
        def chdir(&block) = Chdir.change(block) { super }
      end

      class << self
        # @yield changes the directory, until the end of the block if one is given
        def change(block)
          task = Task.current if (scheduler = Scheduler.current)
          return yield unless task
          owner = scheduler.chdir_owner
          return within(scheduler, task, block) { yield } unless owner&.alive?
          raise "conflicting chdir during another chdir block" unless owner.equal?(task)
          yield
        end

        private

        def within(scheduler, task, block)
          return yield unless block
          begin
            scheduler.chdir_owner = task
            yield
          ensure
            scheduler.chdir_owner = nil
          end
        end
      end
    end
  end
end
