# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Regular files: written bytes are there, of an interrupted write a prefix, and none appears later.
    module Files
      private

      def op_file(node, at)
        salt = @ledger.number
        path = File.join(@folder, "file #{salt}")
        File.open(path, "w+b") do |file|
          file.sync = true
          kept = Ledger::Kept.new(path, "".b, node.title)
          @ledger.files << kept
          expired, = limited(at, node.args[:limit]) { write_piece(file, kept, salt, node.args[:size], node.args[:how] || :pwrite) }
          write_more(file, kept, salt, node.args[:after], expired)
          read_back(file, kept, node, at) if node.args[:read] && !kept.content.empty?
        end
      end

      def op_file_pwrite(node, at) = op_file(node, at)

      def write_more(file, kept, salt, after, expired)
        case after
        when :rewrite
          empty(file, kept)
          write_piece(file, kept, salt + 1, 1000)
        when :append
          file.seek(0, IO::SEEK_END)
          write_piece(file, kept, salt, 20_000)
        end
      end

      def empty(file, kept)
        unsure = kept.unsure
        file.rewind
        kept.unsure = true
        file.truncate(0)
      ensure
        kept.content = "".b if File.empty?(kept.path)
        kept.unsure = unsure
      end

      # Writes at the end of the file. However the write ends, the bytes that are in the file then stay there.
      def write_piece(file, kept, salt, length, how = :write)
        unsure = kept.unsure || false
        kept.unsure = true
        position = kept.content.bytesize
        data = content(salt, position, length)
        written = (how == :pwrite) ? file.pwrite(data, position) : file.public_send(how, data)
        ledger.check(:write_value, written == length || how != :write) { "write returned #{written} of #{length}" }
      ensure
        written ||= interrupted_write(kept, position, length, unsure) if data
        kept.content += data.byteslice(0, written) if written
        kept.unsure = unsure
      end

      def interrupted_write(kept, position, length, unsure)
        written = File.size(kept.path) - position
        ledger.check(:file_content, written.between?(0, length) || (unsure && ledger.interrupts > 0)) { "#{written} of #{length} bytes are in the file after an interrupted write: #{kept.title}" }
        written.clamp(0, length)
      end

      def read_back(file, kept, node, at)
        if node.args[:evict]
          file.fsync
          file.advise(:dontneed)
        end
        file.rewind
        expired, data = limited(at, node.args[:read_limit]) { file.readpartial(node.args[:read]) }
        if expired
          same(file.pread(16, 0), kept, 0, "pread after an interrupted read") if kept.content.bytesize > 16
          position = file.pos
          same(file.read(100) || "", kept, position, "read after an interrupted read, at its position")
          file.rewind
          data = file.read(16)
        end
        same(data, kept, 0, "read#{" after an interrupted read and rewind" if expired}")
        position = file.pos
        ledger.check(:file_content, position == data.bytesize) { "the position is #{position} after #{data.bytesize} bytes: #{kept.title}" }
        same(file.read, kept, position, "the rest")
      end

      def same(data, kept, position, what)
        return if data == kept.content.byteslice(position, data.bytesize) || (kept.unsure && ledger.interrupts > 0)
        found = kept.content.index(data.byteslice(0, 16))
        ledger.fail(:file_content, "#{what}: wrong bytes at #{position}#{", they are those of #{found}" if found}: #{kept.title}")
      end
    end
  end
end
