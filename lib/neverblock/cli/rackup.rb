# frozen_string_literal: true

module NeverBlock
  class CLI
    # The app to serve, from a rackup file or a Puma configuration. The latter may name the rackup file, set the
    # directory, or contain the app itself.
    #
    #   rackup = Rackup.new("web.ru", configuration.puma)
    #   rackup.check
    #   rackup.load    # => the app
    # @api private
    class Rackup
      FILE = "config.ru"

      # @param named [String, nil] the file that the command line names
      # @param puma [Server::FromPuma::Translation, nil]
      def initialize(named, puma = nil)
        @named = named
        @puma = puma
      end

      # @return [String, nil] the directory to enter before anything is loaded
      def home = @puma&.directory

      # @return [void]
      # @raise [ConfigurationError] if there is nothing to serve
      def check
        return if there?
        raise ConfigurationError, "there is no #{path} in #{Dir.pwd}. Go to the app's folder, or name its file: " \
          "neverblock serve path/to/config.ru"
      end

      # @return [Boolean] whether there is something to serve
      def there? = !own.nil? || File.file?(path)

      # For the program that follows. The app itself is loaded by that program alone.
      # @return [void]
      def rehearse = nil

      # @return [Boolean] whether it looks like that of a Rails app
      def rails? = File.file?(File.expand_path("../config/environment.rb", path))

      # @return [#call]
      # @raise [AppError]
      def load
        Patches.apply # before the app, which may freeze the classes
        app = own || read
        unless app.respond_to?(:call)
          raise AppError, "#{self} runs #{app.inspect}, which is not a Rack app: it does not respond to call"
        end
        @puma ? @puma.wrap(app) : app
      end

      # @return [String]
      def to_s = own ? "the app of the Puma configuration" : path

      private

      def own = (@puma&.app unless @named)

      def path
        path = @named || @puma&.rackup || FILE
        home ? File.expand_path(path, home) : path
      end

      def read
        require "rack"
        require "rack/builder"
        app = ::Rack::Builder.parse_file(path)
        (Array === app) ? app.first : app # Rack 2 adds the options of its first line
      rescue *AppError::CAUSES => error
        raise AppError, "#{path} can't be loaded\n#{Server::LogText.full(error)}", cause: nil
      end
    end
  end
end
