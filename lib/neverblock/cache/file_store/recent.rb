# frozen_string_literal: true

module NeverBlock
  class Cache
    class FileStore
      # Entries that this process has read lately, by the names of their files. A name stands for one content for ever;
      # whether its file still exists is looked up at each read. Long bodies stay in their files.
      #
      #   recent.add("03…-9d…-71….nbc", Recent::Record.new(entry, path, key))
      #   recent["03…-9d…-71….nbc"].entry
      # @api private
      class Recent
        # `shown_at` and `touched_at`: monotonic times when the file's times were set; `used`: since it was last looked
        # at for eviction.
        Record = Struct.new(:entry, :path, :key, :shown_at, :touched_at, :used)

        # @param limit [Integer] bytes
        def initialize(limit)
          @limit = limit
          @lock = Thread::Mutex.new
          clear
        end

        # @param name [String]
        # @return [Record, nil]
        def [](name)
          record = @records[name]
          record.used = true if record
          record
        end

        # @param name [String]
        # @param record [Record]
        # @return [Record] the one that is kept: readers share its body
        def add(name, record)
          exclusively do
            present = @records[name]
            next present if present
            next record if cost(record) > @limit
            put(name, record)
            @names[record.entry] = name
            @bytes += cost(record)
            make_room
            record
          end
        end

        # @param name [String]
        # @return [void]
        def delete(name) = exclusively { drop(name) }

        # @param entry [Entry]
        # @return [Record, nil]
        def of(entry) = @lock.synchronize { @records[@names[entry]] }

        # @return [void]
        def clear
          exclusively do
            @records = {} # those that were looked at longest ago first
            @names = {}.compare_by_identity
            @bytes = 0
          end
        end

        private

        # An interrupted thread must not leave the sum wrong.
        def exclusively(&block) = Thread.handle_interrupt(Object => :never) { @lock.synchronize(&block) }

        def put(name, record)
          record.used = false
          @records[name] = record
        end

        # One that was used goes to the end of the line.
        def make_room
          while @bytes > @limit
            name, record = @records.first
            record.used ? put(name, @records.delete(name)) : drop(name)
          end
        end

        def drop(name)
          record = @records.delete(name) or return
          @names.delete(record.entry)
          @bytes -= cost(record)
        end

        def cost(record)
          entry = record.entry
          entry.in_memory? ? entry.bytes : entry.bytes - entry.body_size + 8 * entry.body.checksums.size
        end
      end
    end
  end
end
