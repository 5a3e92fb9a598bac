# frozen_string_literal: true

module NeverBlock
  class Proxy
    # TLS to an upstream. Its certificate is always verified, and its name.
    #
    #   tls = TLS.new("app.internal", ca_file: "/etc/ssl/internal.pem")
    #   tls.connect(socket, deadlines)   # => an OpenSSL::SSL::SSLSocket
    # @api private
    class TLS
      FILE = ValueType.text("the path of a file of certificates")
      private_constant :FILE

      # @return [String] that the certificate must have
      attr_reader :name

      # @param name [String] that the certificate must have: a host name or an IP address
      # @param ca_file [String, nil] certificates to trust, as PEM; nil: those of the system
      # @raise [ConfigurationError]
      def initialize(name, ca_file: nil)
        @name = name
        @context = OpenSSL::SSL::SSLContext.new
        @context.set_params(verify_mode: OpenSSL::SSL::VERIFY_PEER, cert_store: store(ca_file))
        @context.min_version = OpenSSL::SSL::TLS1_2_VERSION
        # RFC 6066, section 3: only names are sent, no addresses.
        @context.verify_hostname = @sends_name = !Upstream::ADDRESS.match?(name)
        @context.alpn_protocols = ["http/1.1"]
        @context.freeze
      end

      # Makes the handshake, within the timeout `connect`.
      # @param socket [Socket]
      # @param deadlines [Deadlines]
      # @return [OpenSSL::SSL::SSLSocket]
      # @raise [OpenSSL::SSL::SSLError, SystemCallError, TimeoutError]
      def connect(socket, deadlines)
        secure = OpenSSL::SSL::SSLSocket.new(socket, @context)
        secure.sync_close = true
        secure.hostname = @name if @sends_name
        loop do
          case secure.connect_nonblock(exception: false)
          when :wait_readable then deadlines.wait(socket, IO::READABLE, :connect)
          when :wait_writable then deadlines.wait(socket, IO::WRITABLE, :connect)
          else break
          end
        end
        # The context's own check is for names that were sent; this one is for addresses too.
        secure.post_connection_check(@name)
        secure
      end

      private

      def store(ca_file)
        store = OpenSSL::X509::Store.new
        return store.tap(&:set_default_paths) if ca_file.nil?
        FILE.setting(ca_file) { "ca_file:" }
        store.tap { store.add_file(ca_file) }
      rescue OpenSSL::X509::StoreError => error
        raise ConfigurationError, "ca_file: #{ca_file.inspect} can't be read as certificates (#{error.message}). " \
          "Give a file in PEM format that this process may read"
      end
    end
  end
end
