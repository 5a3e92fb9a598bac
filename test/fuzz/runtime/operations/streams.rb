# frozen_string_literal: true

require "openssl"

module NeverBlockFuzz
  module Operations
    # Pipes, socket pairs, TCP and TLS: the bytes read are those written, in order and without a gap, also when reads
    # are interrupted and repeated.
    module Streams
      # The bytes that a writer has certainly written, and those in flight when it was interrupted.
      Sent = Struct.new(:bytes, :in_flight)

      TLS_KEY = OpenSSL::PKey::EC.generate("prime256v1")
      TLS_CERTIFICATE = OpenSSL::X509::Certificate.new.tap { |certificate|
        certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
        certificate.public_key = TLS_KEY
        certificate.serial = 1
        certificate.version = 2
        certificate.not_before = Time.at(0)
        certificate.not_after = Time.now + 1_000_000
        certificate.sign(TLS_KEY, "SHA256")
      }
      private_constant :Sent, :TLS_KEY, :TLS_CERTIFICATE

      private

      def op_stream(node, at)
        ends = open_ends(node.args[:kind])
        reader, writer = ends
        sent = nothing_sent
        salt = @ledger.number
        received = nil
        inside(at) do
          start(nil, at) { |strand| send_all(writer, salt, sent, node, strand) }
          received = receive_all(reader, salt, node, at)
        end
        least = ledger.interrupts.zero? ? sent.bytes : 0
        ledger.check(:stream_content, received.between?(least, sent.bytes + sent.in_flight)) do
          "#{received} bytes arrived of #{sent.bytes} and #{sent.in_flight} in flight: #{node.title}"
        end
      ensure
        ends&.each { |one| close_writer(one, false) }
      end

      def nothing_sent = Sent.new(0, 0)

      def open_ends(kind)
        case kind
        when :pipe then IO.pipe.each(&:binmode)
        when :pair then UNIXSocket.pair
        when :tcp then tcp_ends
        else tls_ends
        end
      end

      def tcp_ends
        server = TCPServer.new("127.0.0.1", 0)
        client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
        ends = [client, server.accept]
      ensure
        server&.close
        client&.close unless ends
      end

      def tls_ends
        client, server = UNIXSocket.pair
        context = OpenSSL::SSL::SSLContext.new
        context.key = TLS_KEY
        context.cert = TLS_CERTIFICATE
        [OpenSSL::SSL::SSLSocket.new(client), OpenSSL::SSL::SSLSocket.new(server, context)].each { |socket| socket.sync_close = true }
      end

      def send_all(writer, salt, sent, node, at)
        chunk, size, write_limit, slow = node.args.values_at(:chunk, :size, :write_limit, :slow)
        writer.accept if writer.is_a?(OpenSSL::SSL::SSLSocket)
        until sent.bytes >= size
          piece = content(salt, sent.bytes, [chunk, size - sent.bytes].min)
          sent.in_flight = piece.bytesize
          expired, = limited(at, write_limit) { writer.write(piece) }
          break if expired
          sent.bytes += piece.bytesize
          sent.in_flight = 0
          nap(slow, at) if slow && sent.bytes == chunk
        end
      ensure
        close_writer(writer, sent.bytes >= size)
      end

      # TLS writes on close, and would wait for a reader that has left.
      def close_writer(writer, complete)
        return if writer.closed?
        (complete || !writer.is_a?(OpenSSL::SSL::SSLSocket)) ? writer.close : writer.to_io.close
      end

      # @param from [Integer] the position of the first byte
      def receive_all(reader, salt, node, at, from = 0)
        reader.connect if reader.is_a?(OpenSSL::SSL::SSLSocket)
        received = interruptions = 0
        loop do
          limit = node.args[:read_limit] if interruptions < 20
          data = receive_one(reader, node.args[:how], limit, at)
          next interruptions += 1 if data == :expired
          return received if data.nil? || data.empty?
          # An interrupt from another thread may arrive between the read and its value, as in any Ruby program.
          same = data == content(salt, from + received, data.bytesize) || ledger.interrupts > 0
          ledger.check(:stream_content, same) do
            "#{data.bytesize} bytes from #{received} on are wrong after #{interruptions} interrupted reads: #{node.title}"
          end
          received += data.bytesize
        end
      end

      # @return [String, nil, :expired] nil at the end
      def receive_one(reader, how, limit, at)
        how = :readpartial if %i[read gets wait].include?(how) && reader.is_a?(OpenSSL::SSL::SSLSocket)
        expired, data = case how
        when :read then [false, reader.read]
        when :gets then [false, reader.gets("\n", 5000)]
        when :sysread then limited(at, limit) { reader.sysread(30_000) }
        when :wait then limited(at, limit) { reader.wait_readable && reader.read_nonblock(30_000) }
        else limited(at, limit) { reader.readpartial(30_000) }
        end
        expired ? :expired : data
      rescue EOFError
        nil
      rescue OpenSSL::SSL::SSLError => error # the other side's close does not wait for that
        raise unless error.message.include?("unexpected eof")
      end
    end
  end
end
