# frozen_string_literal: true

require "etc"
require "socket"
require_relative "address"

module NeverBlock
  class Server
    # Opens the sockets that a server listens on, and removes them again.
    #
    #   binder = Binder.new([Address.parse("tcp://127.0.0.1:0")], backlog: 1024).open
    #   binder.addresses   # => ["tcp://127.0.0.1:43211"]
    #   binder.close
    #
    # The file of a unix socket is replaced if its server is dead, never if it answers. Sockets that were opened for us,
    # as by systemd, serve the addresses that they are bound to, and their files are left alone.
    # @api private
    class Binder
      # @return [Array<Socket>] listening ones
      attr_reader :sockets

      # @return [Array<String>] their URIs, with the actual ports
      attr_reader :addresses

      # @param wanted [Array<Address>]
      # @param backlog [Integer]
      # @param given [Array<Socket>] listening ones that were opened for us; all are used if no addresses are wanted
      def initialize(wanted, backlog:, given: [])
        @wanted = wanted
        @backlog = backlog
        @given = given
        @own = given.empty?
        @assigned = {}
        @sockets = []
        @addresses = []
        @files = {}
      end

      # @param configuration [Configuration]
      # @param given [Array<Socket>] opened for us; their addresses count if the configuration names none
      # @return [Binder]
      def self.for(configuration, given: [])
        wanted = (given.any? && !configuration.set?(:bind)) ? [] : configuration.addresses
        new(wanted, backlog: configuration[:backlog], given:)
      end

      # Takes over sockets that the previous program in this process has opened.
      # @param numbers [Hash{Integer=>String}] descriptors and their URIs
      # @param files [Hash{String=>Array}] of unix sockets
      # @param own [Boolean] whether that program's binder has opened all of them
      # @return [Binder]
      def self.inherited(numbers, files, own: false)
        new([], backlog: 0).tap { |binder| binder.take_over(numbers, files, own) }
      end

      # @return [Boolean] whether no other program, such as systemd, has opened one of the sockets and may still use it
      def own? = @own

      # @return [Hash{String=>Array(Integer, Integer)}] the unix sockets' files, by path: device and inode
      attr_reader :files

      # Compares the open sockets with the configuration: a restart neither opens nor closes any.
      # @param wanted [Array<Address>]
      # @return [Array<String>] a sentence for each address that is only wanted or only open
      def differences(wanted)
        here = @sockets.zip(@addresses)
        found = wanted.to_h { |address| [address, here.select { |socket, uri| serves?(socket, uri, address) }] }
        closed = found.select { |_, all| all.empty? }.keys.map do |address|
          "bind #{address.to_s.inspect} is not served: sockets are opened at a start, not at a restart"
        end
        closed + (here - found.values.flatten(1)).map do |_, uri|
          "#{uri} is served on, though no bind names it any more: sockets are closed at a stop, not at a restart"
        end
      end

      # @api private
      def take_over(numbers, files, own)
        @own = own
        @process = Process.pid
        numbers.each { |number, uri| add(Socket.for_fd(number).tap { |socket| socket.close_on_exec = true }, uri) }
        @files.update(files.transform_keys(&:to_s))
      end

      # Opens all sockets, or none.
      # @return [self]
      # @raise [BindError]
      def open
        @process = Process.pid
        assign_given if @given.any?
        @wanted.each { |address| address.unix? ? open_unix(address) : open_tcp(address) }
        self
      rescue SystemCallError, SocketError, BindError
        close
        raise
      end

      # Closes the sockets, and removes those of their files that are still ours. A forked child only closes its own
      # descriptors.
      # @return [void]
      def close
        @sockets.each(&:close)
        @sockets.clear
        @files.clear unless @process == Process.pid
        @files.each { |path, identity| File.unlink(path) if identity(path) == identity }
        @files.clear
      rescue SystemCallError
        @files.clear # the folder may be gone, or no longer writable
      end

      private

      # Assigns each given socket to the wanted address that it is bound to. One that no `bind` names is an error, since
      # clients would wait there for ever.
      def assign_given
        return @given.each { |socket| add(socket, uri(socket)) } if @wanted.empty?
        left = @given.dup
        @wanted.each do |address|
          places(address).each do |place|
            found = left.find { |socket| at?(socket, *place) }
            @assigned[place] = left.delete(found) if found
          end
        end
        return if left.empty?
        raise BindError, "#{uri(left.first)} was handed over to us, and no bind names it. " \
          "Write: bind #{uri(left.first).inspect}, or take it out of the .socket unit"
      end

      # Port 0 stands for any. An address with `proxy=` is another one than the same without.
      def serves?(socket, uri, address)
        return false unless uri.end_with?(Address::PROXY) == address.proxy
        return at?(socket, address.path) if address.unix?
        resolve(address).any? do |info|
          at?(socket, info.ip_address,
            address.port.zero? ? socket.local_address.ip? && socket.local_address.ip_port : address.port)
        end
      rescue BindError
        false # the name does not resolve
      end

      def places(address)
        address.unix? ? [[address.path]] : resolve(address).map { |info| [info.ip_address, address.port] }
      end

      # A socket on [::] accepts IPv4 too, unless V6ONLY is set: systemd opens such a one for a ListenStream= with a
      # port alone.
      def at?(socket, host, port = nil)
        own = socket.local_address
        return own.unix? && same_file?(own.unix_path, host) unless port
        return false unless own.ip? && own.ip_port == port
        own.ip_address == host ||
          (own.ip_address == "::" && host == "0.0.0.0" && !socket.getsockopt(:IPV6, :V6ONLY).bool)
      end

      # The path may be a link. One that begins with a zero byte is abstract and has no file.
      def same_file?(one, other) = one == other || (!one.start_with?("\0") && File.identical?(one, other))

      def uri(socket)
        own = socket.local_address
        return "unix://#{own.unix_path.sub("\0", "@")}" if own.unix?
        "tcp://#{own.ipv6? ? "[#{own.ip_address}]" : own.ip_address}:#{own.ip_port}"
      end

      # A name may resolve to several addresses, of which this machine may have only one.
      def open_tcp(address)
        opened, failure, port = 0, nil, address.port
        resolve(address).each do |info|
          socket = @assigned.delete([info.ip_address, port]) || listen_tcp(info, port)
          own = socket.local_address
          port = own.ip_port
          add(socket, address.with(host: own.ip_address).to_s(port))
          opened += 1
        rescue Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT => failure
          next
        end
        refuse(address, failure) if opened.zero?
      rescue SystemCallError => error
        refuse(address, error)
      end

      def resolve(address)
        Addrinfo.getaddrinfo(address.host, nil, nil, :STREAM, nil, Socket::AI_PASSIVE).uniq(&:ip_address)
      rescue SocketError => error
        refuse(address, error)
      end

      def listen_tcp(info, port)
        socket = Socket.new(info.afamily, Socket::SOCK_STREAM, 0)
        socket.setsockopt(:SOCKET, :REUSEADDR, true)
        socket.setsockopt(:IPV6, :V6ONLY, info.ip_address != "::") if info.ipv6?
        socket.setsockopt(:TCP, :NODELAY, true) # accepted connections inherit it
        socket.bind(Addrinfo.tcp(info.ip_address, port))
        socket.listen(@backlog)
        socket
      rescue SystemCallError
        socket&.close
        raise
      end

      # Permissions are set before `listen`, so no client can connect with other ones.
      def open_unix(address)
        given = @assigned.delete([address.path])
        return add(given, address.to_s) if given
        clear_stale(address)
        socket = Socket.new(:UNIX, :STREAM)
        socket.bind(Addrinfo.unix(address.path))
        @files[address.path] = identity(address.path)
        permit(address)
        socket.listen(@backlog)
        add(socket, address.to_s)
      rescue SystemCallError, ArgumentError => error
        socket&.close
        refuse(address, error)
      end

      def permit(address)
        File.chmod(address.mode, address.path) if address.mode
        return unless address.owner || address.group
        File.chown(address.owner && Etc.getpwnam(address.owner).uid, address.group && Etc.getgrnam(address.group).gid,
          address.path)
      end

      def clear_stale(address)
        return unless File.symlink?(address.path) || File.exist?(address.path)
        unless File.socket?(address.path)
          raise BindError,
            "#{address}: there is a file of that name, and it is not a socket. Remove it, or choose another path"
        end
        if answers?(address.path)
          raise BindError, "#{address}: a server answers there already. Stop it, or choose another path"
        end
        File.unlink(address.path)
      end

      def answers?(path)
        socket = Socket.new(:UNIX, :STREAM)
        socket.connect_nonblock(Addrinfo.unix(path))
        true
      rescue Errno::ECONNREFUSED, Errno::ENOENT
        false
      rescue SystemCallError
        true # EAGAIN: its backlog is full. EACCES: it is another user's. Neither may be removed
      ensure
        socket&.close
      end

      def add(socket, uri)
        @sockets << socket
        @addresses << uri
      end

      def identity(path) = File.lstat(path).then { |stat| [stat.dev, stat.ino] }

      def refuse(address, error)
        raise BindError, "#{address}: #{error.message}. #{remedy(address, error)}", cause: error
      end

      def remedy(address, error)
        case error
        when Errno::EADDRINUSE
          "Stop the process that listens there (see ss -ltnp \"sport = :#{address.port}\"), or choose another port. " \
            "A server that is being stopped keeps its port for drain_delay and its last requests: " \
            "neverblock restart, or USR2, takes it over"
        when Errno::EADDRNOTAVAIL
          "No interface of this machine has that address: ip addr lists them; 0.0.0.0 and [::] are all"
        when Errno::EACCES, Errno::EPERM
          if address.unix?
            "This user may not do that in #{File.dirname(address.path)}: give it the folder, or choose another path"
          else
            "Ports below 1024 are for root: choose another, or allow it with CAP_NET_BIND_SERVICE"
          end
        when Errno::ENOENT then "Make the folder #{File.dirname(address.path)} first"
        when SocketError then "Is the name spelt right? An IP address always works"
        when ArgumentError then "owner= and group= are names that this system knows"
        else "Choose another address"
        end
      end
    end
  end
end
