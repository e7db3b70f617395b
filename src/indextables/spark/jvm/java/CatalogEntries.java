package indextables.spark;

import java.net.URI;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** The entries of our tables in Spark's session catalog: the location of a table and its options. */
final class CatalogEntries {
    private final SessionCatalog catalog;
    private final String format;

    CatalogEntries(SessionCatalog catalog, String format) {
        this.catalog = catalog;
        this.format = format;
    }

    private static TableIdentifier identifier(Identifier name) {
        return new TableIdentifier(name.name(), Option.apply(name.namespace()[0]));
    }

    /** Whether one of our tables has this name. */
    boolean has(Identifier name) {
        if (name.namespace().length != 1) return false;
        try {
            Option provider = catalog.getTableMetadata(identifier(name)).provider();
            return provider.isDefined() && format.equalsIgnoreCase((String) provider.get());
        } catch (NoSuchNamespaceException error) {
            return false;
        } catch (NoSuchTableException error) {
            return false;
        }
    }

    private CatalogTable entry(Identifier name) throws NoSuchTableException {
        try {
            return catalog.getTableMetadata(identifier(name));
        } catch (NoSuchNamespaceException error) {
            throw new NoSuchTableException(name);
        }
    }

    String title(Identifier name) throws NoSuchTableException {
        return entry(name).identifier().unquotedString();
    }

    /** A request about an existing table. */
    Map request(String what, Identifier name) throws NoSuchTableException {
        CatalogTable entry = entry(name);
        Map request = new HashMap();
        request.put("do", what);
        request.put("name", entry.identifier().unquotedString());
        Option place = entry.storage().locationUri();
        request.put("path", place.isDefined() ? CatalogUtils.URIToString((URI) place.get()) : null);
        request.put("stored", CollectionConverters.asJava(entry.storage().properties()));
        return request;
    }

    /** The catalog's part of a table: its properties, and the comments of its columns by name. */
    CatalogLoad.Shown shown(Identifier name) throws NoSuchTableException {
        CatalogTable entry = entry(name);
        return new CatalogLoad.Shown(new V1Table(entry).properties(), entry.schema());
    }

    /** A request about a new table, at its given location or at the default location of its name. */
    Map newRequest(String what, Identifier name, Map properties)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        if (name.namespace().length != 1 || !catalog.databaseExists(name.namespace()[0])) {
            throw new NoSuchNamespaceException(name.namespace());
        }
        if (catalog.tableExists(identifier(name))) throw new TableAlreadyExistsException(name);
        Map request = new HashMap();
        request.put("do", what);
        request.put("name", identifier(name).unquotedString());
        request.put("properties", new HashMap(properties));
        String place = place(properties);
        request.put("isManaged", Boolean.valueOf(place == null));
        if (place == null) place = CatalogUtils.URIToString(catalog.defaultTablePath(identifier(name)));
        request.put("path", place);
        return request;
    }

    private static String place(Map properties) {
        Object given = properties.get(TableCatalog.PROP_LOCATION);
        boolean isManaged = "true".equals(properties.get(TableCatalog.PROP_IS_MANAGED_LOCATION));
        if (given != null && !isManaged) return (String) given;
        Object[] keys = properties.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            if ((TableCatalog.OPTION_PREFIX + "path").equalsIgnoreCase((String) keys[i])) {
                return (String) properties.get(keys[i]);
            }
        }
        return null;
    }

    /** Register an existing table under its name. */
    void register(Identifier name, Map request, Map told)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        boolean isManaged = Boolean.TRUE.equals(request.get("isManaged"));
        URI place = CatalogUtils.stringToURI((String) told.get("location"));
        StructType schema = Texts.schema((String) told.get("plainSchema"));
        CatalogTableType kind = isManaged ? CatalogTableType.MANAGED() : CatalogTableType.EXTERNAL();
        catalog.createTable(table(name, place, kind, schema, told), false, false);
    }

    private CatalogTable table(Identifier name, URI place, CatalogTableType kind, StructType schema, Map told) {
        return CatalogParts.table(
            identifier(name), kind, CatalogParts.storage(place, scalaMap(told, "stored")), schema, format,
            CollectionConverters.asScala((List) told.get("partitions")).toSeq(), scalaMap(told, "kept"),
            told.get("comment"));
    }

    private static scala.collection.immutable.Map scalaMap(Map told, String key) {
        scala.collection.immutable.Map found =
            (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        Object[] entries = ((Map) told.get(key)).entrySet().toArray();
        for (int i = 0; i < entries.length; i++) {
            Map.Entry entry = (Map.Entry) entries[i];
            found = (scala.collection.immutable.Map) found.$plus(new scala.Tuple2(entry.getKey(), entry.getValue()));
        }
        return found;
    }
}
