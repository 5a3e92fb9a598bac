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
        %i[chdir fchdir].each { |name| Scheduler.define_chdir(self, name) }
      end

      # Dir#chdir
      module OfDir
        Scheduler.define_chdir(self, :chdir)
      end

      # Called before a change of the directory.
      # @param block [Boolean] whether the change lasts for a block
      # @return [Scheduler, nil] whose `chdir_owner` the caller resets after the block
      # @raise [RuntimeError] during another task's block
      def self.enter(block)
        task = Task.current if (scheduler = Scheduler.current)
        return unless task
        owner = scheduler.chdir_owner
        if owner&.alive?
          raise "conflicting chdir during another chdir block" unless owner.equal?(task)
        elsif block
          scheduler.chdir_owner = task
          scheduler
        end
      end
    end
  end
end
