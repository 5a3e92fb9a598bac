# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Serves a file that an upstream names in place of a content: X-Sendfile, a path, or X-Accel-Redirect, a path below
    # a prefix. Only regular files below the configured folders are served, after all links were resolved.
    #
    #   accel = Accel.new("/protected/" => "/srv/files")
    #   accel.find([["x-accel-redirect", "/protected/a.pdf"]])    # => "/srv/files/a.pdf"
    #   accel.find([["x-sendfile", "/etc/passwd"]])               # raises Refused
    # @api private
    class Accel
      # The upstream named a file that is not served.
      class Refused < NeverBlock::ProtocolError
        include Error
      end

      # The content of a file, for servers that send files by themselves, and for those that do not.
      class Body
        # Bytes of one piece.
        PIECE = 64 << 10
        private_constant :PIECE

        # @return [String]
        attr_reader :to_path

        # @param path [String]
        def initialize(path)
          @to_path = path
        end

        # @yieldparam piece [String]
        # @return [void]
        def each
          File.open(@to_path, "rb") do |file|
            while (piece = file.read(PIECE))
              yield piece
            end
          end
        end
      end

      ESCAPE = /%(\h\h)/
      private_constant :ESCAPE

      # @param roots [Hash{String=>String}, Array<String>] folders by the prefixes of X-Accel-Redirect; or folders
      #   without any, which are for X-Sendfile alone
      # @raise [ConfigurationError]
      def initialize(roots)
        good = (Hash === roots || Array === roots) && roots.any? && roots.to_a.flatten.all?(String)
        unless good
          raise ConfigurationError, "accel_roots: #{roots.inspect} is not a list of folders, or folders by prefixes. " \
            "For example: accel_roots: {\"/protected/\" => \"/srv/files\"}"
        end
        folders = (Hash === roots) ? roots.values : roots
        @folders = folders.to_h { |folder| [folder, resolved(folder)] }
        @prefixes = (Hash === roots) ? roots.transform_keys { |prefix| check(prefix) } : {}
      end

      # @param fields [Array<Array(String, String)>] of a response
      # @return [String, nil] the path of a file; nil: the response names none
      # @raise [Refused] if the file is not below a root
      # @raise [SystemCallError] if there is no such file
      def find(fields)
        named = fields.select { |name, _| name == "x-sendfile" || name == "x-accel-redirect" }
        return if named.empty?
        refuse("names #{named.size} files") if named.size > 1
        name, value = named.first
        path = (name == "x-sendfile") ? value : translate(value)
        return below_a_root(path) if path&.start_with?("/") && !path.include?("\0")
        refuse("named #{value.inspect}, which is no path of a file")
      end

      private

      def resolved(folder)
        File.realdirpath(folder).tap { |path| raise Errno::ENOTDIR, path unless File.directory?(path) }
      rescue SystemCallError => error
        raise ConfigurationError, "accel_roots: #{folder.inspect} can't be used: #{error.message}. Give a folder"
      end

      def check(prefix)
        return prefix if prefix.start_with?("/") && prefix.end_with?("/")
        raise ConfigurationError, "accel_roots: the prefix #{prefix.inspect} must begin and end with /"
      end

      def translate(value)
        path = value.partition("?").first.b.gsub(ESCAPE) { $1.hex.chr }
        prefix, folder = @prefixes.select { |one, _| path.start_with?(one) }.max_by { |one, _| one.bytesize }
        prefix && File.join(@folders.fetch(folder), path.delete_prefix(prefix))
      end

      def below_a_root(path)
        real = File.realpath(path)
        unless @folders.each_value.any? { |folder| real.start_with?(File.join(folder, "")) }
          refuse("named #{path.inspect}, which is not below a folder of accel_roots:")
        end
        refuse("named #{path.inspect}, which is not a regular file") unless File.file?(real)
        real
      end

      def refuse(reason) = raise(Refused, "an upstream #{reason}. The file is not served")
    end
  end
end
