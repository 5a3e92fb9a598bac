# frozen_string_literal: true

# The limit of open files (ulimit -n), which every socket counts against: raised
# for this process and its children as far as the hard limit allows.
#
#   room = Demo::OpenFiles.make_room(1_000)
#   room.connections   # => 1000, or fewer where the hard limit is low
#   room.note          # => "ulimit -n raised from 256 to 1064 for this run", or nil
module Demo
  module OpenFiles
    Room = Struct.new(:connections, :note)

    RESERVED = 64 # for other descriptors: libraries, pipes, the engine

    module_function

    # @param connections [Integer] how many are wanted at the same time
    # @return [Room] the possible number, and a message for the user, if any
    def make_room(connections)
      soft, hard = Process.getrlimit(:NOFILE)
      needed = connections + RESERVED
      return Room.new(connections) if soft >= needed
      reached = raise_to([needed, hard].min, hard)
      return Room.new(connections, "ulimit -n raised from #{soft} to #{reached} for this run") if reached >= needed
      fewer = [reached - RESERVED, 1].max
      Room.new(fewer, "ulimit -n cannot be raised above #{reached}: #{fewer} at once instead of #{connections} " \
        "(its hard limit is set by root, in limits.conf or the container)")
    end

    # @return [Integer] the limit now in force
    def raise_to(limit, hard)
      Process.setrlimit(:NOFILE, limit, hard)
      limit
    rescue SystemCallError # some systems refuse below their own "unlimited"
      Process.getrlimit(:NOFILE).first
    end
  end
end
